export { Podium, type PodiumOptions } from "./client.js";
export {
  kindOf,
  type EpisodeOptions,
  type EpisodeState,
  type EventKind,
  type WaitOptions,
} from "./episodes.js";
export * from "./errors.js";
export type { ClientFunction } from "./functions.js";
export { newId } from "./ids.js";
export { money, type Amount, type Input } from "./inputs.js";
export type { SpendBy } from "./money.js";
export { Pages, type Page } from "./pages.js";
export type { RetryPolicy } from "./retries.js";
export type * from "./schema.js";
export { VERSION } from "./transport.js";
export {
  InvalidWebhook,
  verifyWebhook,
  type WebhookEvent,
  type WebhookEventType,
} from "./webhooks.js";
