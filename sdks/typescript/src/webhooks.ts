import { PodiumError } from "./errors.js";
import type { ListOptions } from "./inputs.js";
import type { Pages } from "./pages.js";
import type {
  ListWebhookDeliveriesResponse,
  ListWebhooksResponse,
  PutWebhookResponse,
  ReplayWebhookDeliveriesResponse,
  Webhook,
  WebhookDelivery,
} from "./schema.js";
import { path, required, type Transport } from "./transport.js";

export type WebhookEventType =
  | "episode_ended"
  | "approval_requested"
  | "record_dead_lettered"
  | "budget_alert"
  | "feedback_given"
  | "version_promoted";

/** Where a tenant's events are sent; tenant admins only. */
export class Webhooks {
  constructor(private readonly transport: Transport) {}

  /** Registers or replaces one. `secret` is the name of a secret of the platform's store. */
  async put(
    webhookId: string,
    webhook: { url: string; secret: string; eventTypes?: WebhookEventType[] },
  ): Promise<Webhook> {
    const body = {
      url: webhook.url,
      secret: { name: webhook.secret },
      event_types: (webhook.eventTypes ?? []).map((each) => `WEBHOOK_EVENT_TYPE_${each.toUpperCase()}`),
    };
    const address = path`/v1/webhooks/${webhookId}`;
    return required((await this.transport.call<PutWebhookResponse>("PUT", address, { body })).webhook);
  }

  /** In the order of their ids. */
  list(options: ListOptions = {}): Pages<Webhook> {
    return this.transport.pages("/v1/webhooks", (page: ListWebhooksResponse) => page.webhooks, {
      page_size: options.pageSize,
    });
  }

  /** Deletes a webhook and its deliveries. */
  async delete(webhookId: string): Promise<void> {
    await this.transport.call("DELETE", path`/v1/webhooks/${webhookId}`);
  }

  /** Of the last 30 days, newest first. */
  deliveries(
    options: ListOptions & {
      webhookId?: string;
      states?: ("pending" | "delivered" | "failed")[];
    } = {},
  ): Pages<WebhookDelivery> {
    const items = (page: ListWebhookDeliveriesResponse) => page.deliveries;
    return this.transport.pages("/v1/webhook-deliveries", items, {
      webhook_id: options.webhookId,
      states: (options.states ?? []).map((each) => `WEBHOOK_DELIVERY_STATE_${each.toUpperCase()}`),
      page_size: options.pageSize,
    });
  }

  /** Sends deliveries again, all that failed where none is named; how many. */
  async replay(deliveryIds: string[] = [], options: { webhookId?: string } = {}): Promise<number> {
    const body = { delivery_ids: deliveryIds, webhook_id: options.webhookId ?? "" };
    const address = "/v1/webhook-deliveries/replay";
    return (await this.transport.call<ReplayWebhookDeliveriesResponse>("POST", address, { body })).count;
  }
}

/** The request was not signed with the secret, or is too old: reject it. */
export class InvalidWebhook extends PodiumError {}

/** What happened; `id` is the same for every attempt, so what is known can be dropped. */
export interface WebhookEvent {
  id: string;
  /** Like "episode.ended". */
  type: string;
  timestamp: string;
  data: Record<string, unknown>;
}

/** The event of a request whose body is given as it arrived. Throws InvalidWebhook. */
export async function verifyWebhook(
  body: string,
  headers: Headers | Record<string, string | string[] | undefined>,
  secret: string,
  options: { toleranceS?: number } = {},
): Promise<WebhookEvent> {
  const given = (name: string): string => {
    const value = headers instanceof Headers ? headers.get(name) : headers[name];
    return typeof value === "string" ? value : "";
  };
  const sent = given("webhook-timestamp");
  const age = Math.abs(Date.now() / 1000 - Number(sent));
  if (!/^\d+$/.test(sent) || age > (options.toleranceS ?? 300)) {
    throw new InvalidWebhook("webhook-timestamp is missing, or too far from this machine's time");
  }
  const id = given("webhook-id");
  const signed = new TextEncoder().encode(`${id}.${sent}.${body}`);
  const key = await keyOf(secret);
  const found = given("webhook-signature").split(" ");
  const valid = await Promise.all(
    found
      .filter((each) => each.startsWith("v1,"))
      // WebCrypto compares in constant time.
      .map((each) => crypto.subtle.verify("HMAC", key, bytesOf(each.slice(3)), signed)),
  );
  if (!valid.includes(true)) throw new InvalidWebhook("no signature is of this secret and body");
  return { ...(JSON.parse(body) as Omit<WebhookEvent, "id">), id };
}

async function keyOf(secret: string): Promise<CryptoKey> {
  const raw = bytesOf(secret.replace(/^whsec_/, ""));
  if (!raw.length) throw new InvalidWebhook("the secret is not whsec_ and base64");
  return crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}

/** Bytes of base64; none for what is no base64. */
function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
