import type { components } from "../../../sdks/typescript/src/schema";

export type Schemas = components["schemas"];
export type Session = Schemas["Session"];

type Value = string | number | boolean | undefined;
export type Query = Record<string, Value | readonly Value[]>;

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly reason = "",
    readonly requestId = "",
  ) {
    super(message);
  }
}

let csrfToken = "";

export function setCsrfToken(token: string): void {
  csrfToken = token;
}

interface Options {
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Sends a request of this page's session. Throws ApiError; of status 0 where no answer came. */
export async function send(method: string, path: string, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { "x-podium-csrf": csrfToken, ...options.headers };
  if (options.body !== undefined) headers["content-type"] = "application/json";
  const init: RequestInit = { method, headers, signal: options.signal ?? null };
  if (options.body !== undefined) init.body = JSON.stringify(options.body);
  let reply: Response;
  try {
    reply = await fetch(path + searchOf(options.query ?? {}), init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The gateway does not answer. Check the connection; this page tries again.");
  }
  if (reply.ok) return reply;
  const body = await reply.json().catch(() => null);
  const { message = `HTTP ${reply.status}`, reason = "" } = body?.error ?? {};
  throw new ApiError(reply.status, message, reason, body?.request_id ?? "");
}

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await send("GET", path, { query, signal })).json();
}

export async function write<T>(method: string, path: string, body: unknown = {}): Promise<T> {
  const reply = await send(method, path, { body });
  return reply.status === 204 ? (undefined as T) : reply.json();
}

function searchOf(query: Query): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value])
      .filter((each) => each !== undefined && each !== "" && each !== false)
      .map((each) => [name, String(each)]),
  );
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}
