const RETRIED = new Set([408, 425, 429, 500, 502, 503, 504]);

/** Exponential backoff with jitter; what the platform asks for goes first. */
export interface RetryPolicy {
  /** Repetitions after the first attempt. */
  attempts: number;
  firstWaitMs: number;
  longestWaitMs: number;
  /** A Retry-After beyond it is left to the caller. */
  longestRetryAfterMs: number;
}

export const RETRIES: RetryPolicy = {
  attempts: 4,
  firstWaitMs: 500,
  longestWaitMs: 30_000,
  longestRetryAfterMs: 60_000,
};

/** Milliseconds before repetition `attempt`, counted from 0; undefined means not to repeat. */
export function waitMs(
  policy: RetryPolicy,
  attempt: number,
  retryAfterMs?: number,
): number | undefined {
  if (attempt >= policy.attempts) return undefined;
  if (retryAfterMs !== undefined) {
    return retryAfterMs <= policy.longestRetryAfterMs ? retryAfterMs : undefined;
  }
  const longest = Math.min(policy.longestWaitMs, policy.firstWaitMs * 2 ** attempt);
  // Clients that failed together do not come back together.
  return longest * (0.5 + Math.random() / 2);
}

/** Whether the same request may succeed later; the platform's own word on it goes first. */
export function isRetried(status: number, type: string, headers?: Headers): boolean {
  const said = headers?.get("x-should-retry");
  if (said === "true" || said === "false") return said === "true";
  // A conflict between changes, other than an id that is taken.
  return RETRIED.has(status) || (status === 409 && type === "server_error");
}

/** What the answer asks to wait, given as seconds or a date; undefined: not given. */
export function retryAfterMs(headers: Headers): number | undefined {
  const given = headers.get("retry-after");
  if (!given) return undefined;
  const wait = /^[\d.]+$/.test(given) ? Number(given) * 1000 : Date.parse(given) - Date.now();
  return Number.isNaN(wait) ? undefined : Math.max(0, wait);
}

/** Waits; rejects with the signal's reason as soon as it is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const aborted = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, ms);
    signal?.addEventListener("abort", aborted, { once: true });
  });
}
