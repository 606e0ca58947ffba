// Calls to the gateway with the key of this tab, and server-sent events over fetch:
// EventSource cannot send an Authorization header.

const KEY = "podium.api-key";

export const savedKey = () => sessionStorage.getItem(KEY);
export const saveKey = (key) => sessionStorage.setItem(KEY, key);
export const forgetKey = () => sessionStorage.removeItem(KEY);

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function request(path, options = {}) {
  const headers = { ...options.headers, authorization: `Bearer ${savedKey()}` };
  const reply = await fetch(path, { ...options, headers });
  if (!reply.ok) {
    const body = await reply.json().catch(() => null);
    throw new ApiError(reply.status, body?.error?.message ?? `HTTP ${reply.status}`);
  }
  return reply;
}

export async function get(path, query = {}) {
  const search = new URLSearchParams(query).toString();
  return (await request(search ? `${path}?${search}` : path)).json();
}

export async function post(path, body) {
  const headers = { "content-type": "application/json" };
  return (await request(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

const RECONNECT_MS = 1000;

// Calls onEvent for every event of an episode, over broken connections, until it finishes.
export async function watch(episodeId, onEvent, signal) {
  let last = "0";
  while (!signal.aborted) {
    try {
      const headers = { "last-event-id": last };
      const reply = await request(`/v1/episodes/${episodeId}/events`, { headers, signal });
      for await (const { id, event, data } of events(reply.body)) {
        if (event === "error") throw new Error(JSON.parse(data).error.message);
        last = id;
        onEvent(JSON.parse(data));
        if (event === "finished") return;
      }
    } catch (error) {
      if (signal.aborted || (error instanceof ApiError && error.status < 500)) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  while (true) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    const blocks = buffer.split("\n\n");
    buffer = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(
        block.split("\n").map((line) => [line.slice(0, line.indexOf(": ")), line.slice(line.indexOf(": ") + 2)]),
      );
      if (fields.data) yield fields;
    }
  }
}
