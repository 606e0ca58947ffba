import type { Money } from "./schema.js";

/** What is sent: every field may be left out. */
export type Input<T> = T extends (infer U)[]
  ? Input<U>[]
  : T extends object
    ? { [K in keyof T]?: Input<T[K]> }
    : T;

/** An exact amount; a text like "0.05" is US dollars. JavaScript's numbers are not exact. */
export type Amount = string | Money;

export function money(given: Amount, currency = "USD"): Money {
  if (typeof given === "object") return given;
  if (typeof given !== "string" || !/^-?\d+(\.\d+)?$/.test(given)) {
    throw new TypeError(`${given} is no exact amount; write it as a text like "0.05"`);
  }
  return { currency_code: currency, amount: given };
}

export interface ListOptions {
  pageSize?: number;
}

export interface CallOptions {
  /** Ends the wait; what runs on the platform goes on. */
  signal?: AbortSignal;
}
