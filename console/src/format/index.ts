import { words } from "../words/en";

interface Money {
  amount?: string;
  currency_code?: string;
}

/** Writes an exact decimal with its currency; below a cent with two significant digits. */
export function money(value: Money | null | undefined, unknownCalls = 0): string {
  if (!value?.amount) return unknownCalls ? words.unknown(unknownCalls) : "–";
  return `${unknownCalls ? "≥ " : ""}${symbol(value.currency_code)}${shortDecimal(value.amount)}`;
}

/** Writes the whole decimal, for tooltips and for copying. */
export function exactMoney(value: Money | null | undefined): string {
  return value?.amount ? `${value.amount} ${value.currency_code ?? "USD"}` : words.unknownAmount;
}

function symbol(code: string | undefined): string {
  return !code || code === "USD" ? "$" : `${code} `;
}

function shortDecimal(amount: string): string {
  const number = Number(amount);
  if (number === 0) return "0";
  if (Math.abs(number) >= 100) return number.toLocaleString("en", { maximumFractionDigits: 2 });
  if (Math.abs(number) >= 0.01) return number.toFixed(Math.abs(number) >= 1 ? 2 : 4).replace(/0+$/, "").replace(/\.$/, "");
  return number.toPrecision(2).includes("e") ? number.toExponential(1) : number.toPrecision(2);
}

const LOCAL = new Intl.DateTimeFormat("en-GB", {
  day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit",
});
const LOCAL_DAY = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", year: "numeric" });

/** Writes "28 Nov 09:14:03", in the browser's zone. */
export function time(text: string | null | undefined): string {
  return text ? LOCAL.format(new Date(text)).replace(",", "") : "–";
}

export function day(text: string | null | undefined): string {
  return text ? LOCAL_DAY.format(new Date(text)) : "–";
}

/** Writes 340 ms, 1.2 s, 3 min 05 s, 2 h 10 min, 4 d 3 h. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.round(seconds % 60)).padStart(2, "0")} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${String(minutes % 60).padStart(2, "0")} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Reads "1.25s", as the API writes durations, in milliseconds. */
export function milliseconds(text: string | null | undefined): number {
  return text ? Number(text.replace(/s$/, "")) * 1000 : 0;
}

export function between(start: string | null | undefined, end: string | null | undefined): number {
  return start ? Math.max(0, (end ? Date.parse(end) : Date.now()) - Date.parse(start)) : 0;
}

export function count(value: number | string | null | undefined): string {
  return Number(value ?? 0).toLocaleString("en");
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

/** Turns TOOL_KIND_HTTP into "http", and STOP_REASON_TURN_LIMIT into "turn limit". */
export function name(value: string | null | undefined, prefix: string): string {
  return value ? value.replace(prefix, "").toLowerCase().replaceAll("_", " ") : "–";
}

export function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** What a value says, without fields that are unset. */
export function withoutUnset<T>(value: T): T {
  if (Array.isArray(value)) return value.map(withoutUnset) as T;
  if (value === null || typeof value !== "object") return value;
  const kept = Object.entries(value)
    .map(([name, each]) => [name, withoutUnset(each)] as const)
    .filter(([, each]) => !isUnset(each));
  return Object.fromEntries(kept) as T;
}

function isUnset(value: unknown): boolean {
  if (value === undefined || value === null || value === "" || value === false) return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}
