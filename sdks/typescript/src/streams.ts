/** Lines of a body as they come. Only line feeds end one: text may hold other separators. */
export async function* linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) yield line.replace(/\r$/, "");
    }
  } finally {
    // Whoever stops in the middle hangs up.
    await reader.cancel().catch(() => {});
  }
}

export interface ServerSentEvent {
  name: string;
  data: string;
}

/** Server-sent events out of lines. */
export async function* eventsOf(lines: AsyncIterable<string>): AsyncGenerator<ServerSentEvent> {
  let name = "";
  let data: string[] = [];
  for await (const line of lines) {
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") name = value;
    else if (field === "data") data.push(value);
    else if (!line && data.length) {
      yield { name, data: data.join("\n") };
      name = "";
      data = [];
    }
  }
}
