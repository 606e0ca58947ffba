import { ApiError, ConnectionFailed, PodiumError, type ErrorBody } from "./errors.js";
import { Pages } from "./pages.js";
import { isRetried, retryAfterMs, sleep, waitMs, type RetryPolicy } from "./retries.js";
import { eventsOf, linesOf } from "./streams.js";

export const VERSION = "0.1.0";
/** The platform pings a silent stream every 15 s. */
const STREAM_SILENCE_MS = 60_000;

export type Query = Record<string, unknown>;

export interface Settings {
  baseUrl: string;
  apiKey: string;
  timeoutMs: number;
  retries: RetryPolicy;
  fetch: typeof fetch;
}

export interface Request {
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  /** Whether a request whose answer was lost may be sent again; true if unset. */
  repeatable?: boolean;
  signal?: AbortSignal | undefined;
}

/** A part of an answer that is being written. */
export interface AnswerPart {
  /** Characters (Unicode code points) of the answer before it; 0 begins the answer anew. */
  start: number;
  text: string;
}

export interface EventOptions {
  /** The sequence of the last event that is known already. */
  after?: string | undefined;
  onPart?: ((part: AnswerPart) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** Requests with repetitions, and streams that are taken up where they broke. */
export class Transport {
  constructor(private readonly settings: Settings) {}

  /** The reply. Throws ApiError, ConnectionFailed. */
  async call<T>(method: string, path: string, request: Request = {}): Promise<T> {
    const { query = {}, body, headers = {}, repeatable = true, signal } = request;
    for (let attempt = 0; ; attempt++) {
      let failed: PodiumError;
      let wait: number | undefined;
      try {
        const reply = await this.fetched(method, path, query, signal, {
          headers: { ...headers, ...(body === undefined ? {} : { "content-type": "application/json" }) },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        if (reply.ok) return (await reply.json()) as T;
        failed = await rejection(reply);
        // 429 is said before anything is done.
        const safe = repeatable || reply.status === 429;
        const again = safe && isRetried(reply.status, (failed as ApiError).type, reply.headers);
        wait = again
          ? waitMs(this.settings.retries, attempt, retryAfterMs(reply.headers))
          : undefined;
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof PodiumError) throw error;
        failed = this.unreachable(error);
        const again = repeatable || isUnsent(error);
        wait = again ? waitMs(this.settings.retries, attempt) : undefined;
      }
      if (wait === undefined) throw failed;
      await sleep(wait, signal);
    }
  }

  /** The items of a list; `items` gives those of a page. */
  pages<R extends { next_page_token: string }, T>(
    path: string,
    items: (page: R) => T[],
    query: Query,
  ): Pages<T> {
    return new Pages(async (pageToken) => {
      const page = await this.call<R>("GET", path, { query: { ...query, page_token: pageToken } });
      return { items: items(page), nextPageToken: page.next_page_token };
    });
  }

  /** Events after `after`; a broken stream is resumed. Ends when its consumer stops. */
  async *events<E extends { sequence: string }>(
    path: string,
    options: EventOptions,
  ): AsyncGenerator<E> {
    const { onPart, signal } = options;
    let { after = "0" } = options;
    const query: Query = onPart ? { answer_parts: true } : {};
    for (let attempt = 0; ; attempt++) {
      let lost: PodiumError = new ConnectionFailed("the stream ended before the episode did");
      try {
        const headers = { "last-event-id": after, accept: "text/event-stream" };
        for await (const event of eventsOf(this.opened(path, query, signal, headers))) {
          const data = JSON.parse(event.data) as E & ErrorBody;
          if (event.name === "error") throw ApiError.inStream(data);
          attempt = -1;
          // Parts of an answer are not stored, so none is resumed from.
          if (event.name === "answer_part") {
            onPart?.(data as unknown as AnswerPart);
            continue;
          }
          after = data.sequence;
          yield data;
        }
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof ApiError && !isRetried(error.status, error.type)) throw error;
        lost = error instanceof PodiumError ? error : this.unreachable(error);
      }
      const wait = waitMs(this.settings.retries, Math.max(attempt, 0));
      if (wait === undefined) throw lost;
      await sleep(wait, signal);
    }
  }

  /** Replies of a stream of JSON lines. */
  async *lines<T>(path: string, query: Query, signal?: AbortSignal): AsyncGenerator<T> {
    for await (const line of this.opened(path, query, signal, {})) {
      const value = JSON.parse(line) as T;
      const { error } = value as ErrorBody;
      if (error) throw ApiError.inStream(value as ErrorBody);
      yield value;
    }
  }

  private async *opened(
    path: string,
    query: Query,
    signal: AbortSignal | undefined,
    headers: Record<string, string>,
  ): AsyncGenerator<string> {
    const silence = new AbortController();
    const hangUp = () => silence.abort(new Error("the stream was silent for too long"));
    let timer = setTimeout(hangUp, STREAM_SILENCE_MS);
    const both = signal ? AbortSignal.any([signal, silence.signal]) : silence.signal;
    try {
      const reply = await this.settings.fetch(this.address(path, query), {
        headers: { ...this.headers(), ...headers },
        signal: both,
      });
      if (!reply.ok) throw await rejection(reply);
      if (!reply.body) throw new ConnectionFailed("the stream has no body");
      for await (const line of linesOf(reply.body)) {
        clearTimeout(timer);
        timer = setTimeout(hangUp, STREAM_SILENCE_MS);
        yield line;
      }
    } finally {
      clearTimeout(timer);
    }
  }

  private fetched(
    method: string,
    path: string,
    query: Query,
    signal: AbortSignal | undefined,
    init: RequestInit & { headers: Record<string, string> },
  ): Promise<Response> {
    const timeout = AbortSignal.timeout(this.settings.timeoutMs);
    return this.settings.fetch(this.address(path, query), {
      ...init,
      method,
      headers: { ...this.headers(), ...init.headers },
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
  }

  private headers(): Record<string, string> {
    return {
      authorization: `Bearer ${this.settings.apiKey}`,
      "user-agent": `podium-client-typescript/${VERSION}`,
    };
  }

  private address(path: string, query: Query): string {
    const parameters = parametersOf(query).toString();
    return `${this.settings.baseUrl}${path}${parameters ? `?${parameters}` : ""}`;
  }

  private unreachable(error: unknown): ConnectionFailed {
    const cause = error instanceof Error ? (error.cause ?? error) : error;
    return new ConnectionFailed(`no answer from ${this.settings.baseUrl} (${cause})`, {
      cause: error,
    });
  }
}

/** What the API promises to send. Throws PodiumError. */
export function required<T>(given: T | undefined): T {
  if (given === undefined) {
    throw new PodiumError("the platform's answer lacks a part that it always has");
  }
  return given;
}

/** A path with its parameters; a slash inside one is escaped. */
export function path(parts: TemplateStringsArray, ...parameters: string[]): string {
  return String.raw({ raw: parts }, ...parameters.map(encodeURIComponent));
}

/** What is unset is left out; lists are repeated, entries of maps written with a dot. */
function parametersOf(query: Query): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === "" || value === 0 || value === false) continue;
    if (Array.isArray(value)) value.forEach((each) => parameters.append(name, text(each)));
    else if (value instanceof Date || typeof value !== "object" || value === null) {
      parameters.append(name, text(value));
    } else {
      for (const [key, each] of Object.entries(value)) parameters.append(`${name}.${key}`, text(each));
    }
  }
  return parameters;
}

function text(value: unknown): string {
  return value instanceof Date ? value.toISOString() : String(value);
}

async function rejection(reply: Response): Promise<ApiError> {
  // A proxy in between answers in a form of its own.
  const body = (await reply.json().catch(() => ({}))) as ErrorBody | null;
  return ApiError.of(reply.status, body ?? {}, reply.headers);
}

/** Whether the request cannot have arrived. */
function isUnsent(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause as { code?: string } | undefined) : undefined;
  return cause?.code === "ECONNREFUSED" || cause?.code === "ENOTFOUND";
}
