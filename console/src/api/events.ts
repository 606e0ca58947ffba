import { ApiError, send, type Schemas } from "./http";

export type EpisodeEvent = Schemas["EpisodeEvent"];
export type TenantEvent = Schemas["TenantEvent"];

/** A text of the answer, and the number of characters before it. */
export interface AnswerPart {
  start?: number;
  text?: string;
}

const RECONNECT_MS = 1000;

interface Follower<Event> {
  onEvent(event: Event): void;
  onConnection(connected: boolean): void;
  /** A part of the answer while it is written; it is no event, so nothing is resumed from it. */
  onPart?(part: AnswerPart): void;
}

/**
 * Follows an episode to its end, over broken connections: each continues after the last event.
 * Throws ApiError for what no new connection helps against.
 */
export function follow(episodeId: string, follower: Follower<EpisodeEvent>, signal: AbortSignal) {
  const path = `/v1/episodes/${encodeURIComponent(episodeId)}/events?answer_parts=true`;
  return resumed(path, "0", follower, (event) => Boolean(event.finished), signal);
}

/** Follows what happens in the tenant after a position, or from now on, until the signal; in the same way. */
export function followTenant(position: string, follower: Follower<TenantEvent>, signal: AbortSignal) {
  return resumed("/v1/events", position, follower, () => false, signal);
}

async function resumed<Event>(
  path: string, after: string, follower: Follower<Event>, isLast: (event: Event) => boolean, signal: AbortSignal,
) {
  let last = after;
  while (!signal.aborted) {
    try {
      const reply = await send("GET", path, { headers: last ? { "last-event-id": last } : {}, signal });
      follower.onConnection(true);
      for await (const { id, event, data } of messages(reply.body!)) {
        if (event === "error") throw new ApiError(0, JSON.parse(data).error.message);
        if (event === "answer_part") {
          follower.onPart?.(JSON.parse(data));
          continue;
        }
        last = id;
        const seen: Event = JSON.parse(data);
        follower.onEvent(seen);
        if (isLast(seen)) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      // Too many streams of the tenant: others may close.
      const lasting = error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429;
      if (lasting) throw error;
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
