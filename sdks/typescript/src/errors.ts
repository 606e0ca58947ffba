import type { Episode } from "./schema.js";

/** Of this library. */
export class PodiumError extends Error {
  override name = this.constructor.name;
}

/** The client was not told where the platform is, or with which key. */
export class ConfigurationError extends PodiumError {}

/** No answer came, also not to the repetitions of the request. */
export class ConnectionFailed extends PodiumError {}

/** The episode ended without an answer; `episode` says why. */
export class EpisodeUnanswered extends PodiumError {
  constructor(readonly episode: Episode) {
    const stopped = episode.stop_reason ?? "without a reason";
    const reason = stopped.replace("STOP_REASON_", "").toLowerCase().replaceAll("_", " ");
    const why = episode.failure?.message;
    super(`episode ${episode.id} ended: ${reason}${why ? `: ${why}` : ""}`);
  }
}

/** An error as the platform writes it. */
export interface ErrorBody {
  error?: {
    message?: string;
    type?: string;
    param?: string | null;
    reason?: string;
    metadata?: Record<string, string>;
  };
  request_id?: string;
}

/** The platform rejected a request; the message states cause and fix. */
export class ApiError extends PodiumError {
  /** Stable, for programs: POLICY_NOT_FOUND. */
  readonly reason: string;
  readonly type: string;
  readonly param: string | null;
  readonly metadata: Record<string, string>;
  /** What an operator asks for. */
  readonly requestId: string;

  constructor(
    readonly status: number,
    body: ErrorBody,
    headers?: Headers,
  ) {
    const requestId = body.request_id ?? headers?.get("x-request-id") ?? "";
    const message = body.error?.message ?? `HTTP ${status}`;
    super(requestId ? `${message} (request ${requestId})` : message);
    this.reason = body.error?.reason ?? "";
    this.type = body.error?.type ?? "";
    this.param = body.error?.param ?? null;
    this.metadata = body.error?.metadata ?? {};
    this.requestId = requestId;
  }

  /** The error of the class that its status has. */
  static of(status: number, body: ErrorBody, headers?: Headers): ApiError {
    const known = BY_STATUS.get(status) ?? (status >= 500 ? ServerError : ApiError);
    return new known(status, body, headers);
  }

  /** One that arrived inside a stream, after the status. */
  static inStream(body: ErrorBody): ApiError {
    return ApiError.of(STATUS_BY_TYPE.get(body.error?.type ?? "") ?? 503, body);
  }
}

/** 400: the request is wrong, or does not fit the state that things are in. */
export class BadRequest extends ApiError {}
/** 401: no key, or one that does not work. */
export class Unauthenticated extends ApiError {}
/** 402: no budget covers the first call. */
export class BudgetExhausted extends ApiError {}
/** 403: the key may not do this. */
export class PermissionDenied extends ApiError {}
/** 404: it does not exist for this tenant. */
export class NotFound extends ApiError {}
/** 409: the id is taken, or somebody changed the same thing meanwhile. */
export class Conflict extends ApiError {}
/** 429: more requests, open requests or running episodes than the tenant may have. */
export class RateLimited extends ApiError {}
/** 5xx: the platform, or a part of it, does not work now. */
export class ServerError extends ApiError {}
/** 503: a part of the platform is away. */
export class Unavailable extends ServerError {}

const BY_STATUS = new Map<number, typeof ApiError>([
  [400, BadRequest],
  [401, Unauthenticated],
  [402, BudgetExhausted],
  [403, PermissionDenied],
  [404, NotFound],
  [409, Conflict],
  [429, RateLimited],
  [503, Unavailable],
]);
const STATUS_BY_TYPE = new Map([
  ["invalid_request_error", 400],
  ["authentication_error", 401],
  ["insufficient_quota", 402],
  ["permission_error", 403],
  ["rate_limit_error", 429],
]);
