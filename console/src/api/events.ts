import { ApiError, send, type Schemas } from "./http";

export type EpisodeEvent = Schemas["EpisodeEvent"];

const RECONNECT_MS = 1000;

interface Follower {
  onEvent(event: EpisodeEvent): void;
  onConnection(connected: boolean): void;
}

/**
 * Follows an episode to its end, over broken connections: each continues after the last event.
 * Throws ApiError for what no new connection helps against.
 */
export async function follow(episodeId: string, follower: Follower, signal: AbortSignal) {
  let last = "0";
  while (!signal.aborted) {
    try {
      const path = `/v1/episodes/${encodeURIComponent(episodeId)}/events`;
      const reply = await send("GET", path, { headers: { "last-event-id": last }, signal });
      follower.onConnection(true);
      for await (const { id, event, data } of messages(reply.body!)) {
        if (event === "error") throw new ApiError(0, JSON.parse(data).error.message);
        last = id;
        const seen: EpisodeEvent = JSON.parse(data);
        follower.onEvent(seen);
        if (seen.finished) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) throw error;
    }
    follower.onConnection(false);
    await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
  }
}

interface Message {
  id: string;
  event: string;
  data: string;
}

async function* messages(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<Message> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  while (true) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    const blocks = buffer.split("\n\n");
    buffer = blocks.pop()!;
    for (const block of blocks) {
      const message: Message = { id: "", event: "", data: "" };
      for (const line of block.split("\n")) {
        const [name, rest] = [line.slice(0, line.indexOf(": ")), line.slice(line.indexOf(": ") + 2)];
        if (name === "id" || name === "event" || name === "data") message[name] = rest;
      }
      if (message.data) yield message;
    }
  }
}
