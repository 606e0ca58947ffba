import { Corpora } from "./corpora.js";
import { Episodes } from "./episodes.js";
import { ConfigurationError } from "./errors.js";
import { Budgets, Ledger, Prices } from "./money.js";
import { Policies } from "./policies.js";
import { RETRIES, type RetryPolicy } from "./retries.js";
import { Keys, Tenancy } from "./tenancy.js";
import { Tools } from "./tools.js";
import { DeadLetters, ModelVersions } from "./training.js";
import { Transport, type Request } from "./transport.js";
import { Secrets } from "./secrets.js";
import { Evaluations } from "./evaluations.js";
import { Webhooks } from "./webhooks.js";

export interface PodiumOptions {
  /** PODIUM_URL if unset. */
  baseUrl?: string;
  /** PODIUM_API_KEY if unset. */
  apiKey?: string;
  timeoutMs?: number;
  retries?: Partial<RetryPolicy>;
  /** Brings proxies or certificates of its own. */
  fetch?: typeof fetch;
}

/** A platform, as one API key sees it. */
export class Podium {
  readonly episodes: Episodes;
  readonly tools: Tools;
  readonly policies: Policies;
  readonly budgets: Budgets;
  readonly prices: Prices;
  readonly ledger: Ledger;
  readonly keys: Keys;
  readonly tenancy: Tenancy;
  readonly corpora: Corpora;
  readonly modelVersions: ModelVersions;
  readonly deadLetters: DeadLetters;
  readonly evaluations: Evaluations;
  readonly webhooks: Webhooks;
  readonly secrets: Secrets;
  private readonly transport: Transport;

  /** Throws ConfigurationError. */
  constructor(options: PodiumOptions = {}) {
    const url = options.baseUrl ?? environment("PODIUM_URL");
    const apiKey = options.apiKey ?? environment("PODIUM_API_KEY");
    if (!/^https?:\/\//.test(url)) {
      throw new ConfigurationError(
        "no platform is named: give baseUrl, or set PODIUM_URL, like http://127.0.0.1:8080",
      );
    }
    if (!apiKey) throw new ConfigurationError("no API key: give apiKey, or set PODIUM_API_KEY");
    this.transport = new Transport({
      // The base URL of OpenAI's clients ends so.
      baseUrl: url.replace(/\/+$/, "").replace(/\/v1$/, ""),
      apiKey,
      timeoutMs: options.timeoutMs ?? 60_000,
      retries: { ...RETRIES, ...options.retries },
      fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
    });
    this.episodes = new Episodes(this.transport);
    this.tools = new Tools(this.transport);
    this.policies = new Policies(this.transport);
    this.budgets = new Budgets(this.transport);
    this.prices = new Prices(this.transport);
    this.ledger = new Ledger(this.transport);
    this.keys = new Keys(this.transport);
    this.tenancy = new Tenancy(this.transport);
    this.corpora = new Corpora(this.transport);
    this.modelVersions = new ModelVersions(this.transport);
    this.deadLetters = new DeadLetters(this.transport);
    this.evaluations = new Evaluations(this.transport);
    this.webhooks = new Webhooks(this.transport);
    this.secrets = new Secrets(this.transport);
  }

  /** Any route of /openapi.json, for what this version of the client does not know. */
  async call<T>(method: string, path: string, request: Request = {}): Promise<T> {
    return this.transport.call(method, path, request);
  }
}

function environment(name: string): string {
  // Browsers have no process.
  const { process } = globalThis as { process?: { env: Record<string, string | undefined> } };
  return process?.env[name] ?? "";
}
