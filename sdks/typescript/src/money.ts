import { newId } from "./ids.js";
import { money, type Amount, type Input, type ListOptions } from "./inputs.js";
import type { Pages } from "./pages.js";
import type {
  AddInvoiceLinesRequest,
  AddInvoiceLinesResponse,
  Anchor,
  Budget,
  BudgetAlert,
  BudgetStatus,
  Charge,
  ClosePeriodResponse,
  CloseBudgetResponse,
  CreateBudgetResponse,
  CreatePricesResponse,
  DeletePricesResponse,
  Entry,
  ExplainEntryResponse,
  Explanation,
  ExportChargesResponse,
  GetBudgetResponse,
  GetEffectivePricesResponse,
  InclusionProof,
  InvoiceMatch,
  ListAlertsResponse,
  ListAnchorsResponse,
  ListBudgetsResponse,
  ListChargesResponse,
  ListEntriesResponse,
  ListInvoiceMatchesResponse,
  ListPricesResponse,
  Price,
  PriceSpec,
  ProveEntryResponse,
  RaiseBudgetResponse,
  ReconcileInvoiceResponse,
  ReportSpendResponse,
  SimulatePricesRequest,
  SimulatePricesResponse,
  SpendRow,
  UpdateBudgetResponse,
  VerifyLedgerResponse,
} from "./schema.js";
import { path, required, type Transport } from "./transport.js";

/** Hard limits, and alerts before them. */
export class Budgets {
  constructor(private readonly transport: Transport) {}

  /** A budget of the whole tenant; `add` takes every other kind. */
  async create(
    budgetId: string,
    limit: Amount,
    options: { window?: "total" | "day" | "week" | "month"; alertAt?: Amount[] } = {},
  ): Promise<Budget> {
    const window = `BUDGET_WINDOW_${(options.window ?? "month").toUpperCase()}`;
    return this.add({
      id: budgetId,
      scope: "BUDGET_SCOPE_TENANT",
      window: window as Budget["window"],
      hard_limit: money(limit),
      soft_limits: (options.alertAt ?? []).map((each) => money(each)),
    });
  }

  /** The same id and content again is the same budget. */
  async add(budget: Input<Budget>): Promise<Budget> {
    const body = { budget };
    const reply = await this.transport.call<CreateBudgetResponse>("POST", "/v1/budgets", { body });
    return required(reply.budget);
  }

  /** A budget, and what its window holds now. */
  async get(budgetId: string): Promise<BudgetStatus> {
    const reply = await this.transport.call<GetBudgetResponse>("GET", path`/v1/budgets/${budgetId}`);
    return required(reply.status);
  }

  /** In the order of their ids. */
  list(options: ListOptions = {}): Pages<BudgetStatus> {
    return this.transport.pages("/v1/budgets", (page: ListBudgetsResponse) => page.statuses, {
      page_size: options.pageSize,
    });
  }

  /** Changes what is given. With a `version`, only if nobody changed it meanwhile. */
  async update(
    budgetId: string,
    changes: { limit?: Amount; alertAt?: Amount[]; endTime?: Date; version?: string },
  ): Promise<Budget> {
    const { limit, alertAt, endTime, version } = changes;
    // As a field mask names them in protobuf's JSON; bodies may, too.
    const fields = {
      hardLimit: limit === undefined ? undefined : money(limit),
      softLimits: alertAt?.map((each) => money(each)),
      endTime,
    };
    const given = Object.entries(fields).filter(([, value]) => value !== undefined);
    const body = { ...fields, version, update_mask: given.map(([name]) => name).join(",") };
    const address = path`/v1/budgets/${budgetId}`;
    const reply = await this.transport.call<UpdateBudgetResponse>("PATCH", address, { body });
    return required(reply.budget);
  }

  /** Adds an amount to the hard limit until a time; 0, which has none, ends the raise before. A
   * `raiseId` (UUIDv7) that was sent before is the same raise. */
  async raise(
    budgetId: string,
    amount: Amount,
    options: { until?: Date; reason: string; raiseId?: string },
  ): Promise<Budget> {
    const body = {
      raise_id: options.raiseId ?? newId(),
      amount: money(amount),
      end_time: options.until,
      reason: options.reason,
    };
    const address = path`/v1/budgets/${budgetId}/raise`;
    const reply = await this.transport.call<RaiseBudgetResponse>("POST", address, { body });
    return required(reply.budget);
  }

  /** It decides no further call. */
  async close(budgetId: string): Promise<Budget> {
    const address = path`/v1/budgets/${budgetId}/close`;
    const reply = await this.transport.call<CloseBudgetResponse>("POST", address, { body: {} });
    return required(reply.budget);
  }

  /** Soft limits that were passed, newest first. */
  alerts(budgetId = "", options: ListOptions = {}): Pages<BudgetAlert> {
    return this.transport.pages("/v1/budget-alerts", (page: ListAlertsResponse) => page.alerts, {
      budget_id: budgetId,
      page_size: options.pageSize,
    });
  }
}

/** Versions of prices, which never change. */
export class Prices {
  constructor(private readonly transport: Transport) {}

  /** All of them, or none; the same price again keeps its version. */
  async create(
    specs: Input<PriceSpec>[],
    options: { validateOnly?: boolean } = {},
  ): Promise<CreatePricesResponse> {
    const body = { specs, validate_only: options.validateOnly ?? false };
    return this.transport.call("POST", "/v1/prices", { body });
  }

  /** Deletes versions that no call used, all or none; what was used stays. */
  async delete(ids: string[]): Promise<Price[]> {
    const query = { ids };
    const reply = await this.transport.call<DeletePricesResponse>("DELETE", "/v1/prices", { query });
    return reply.prices;
  }

  /** In the order of their SKUs. */
  list(options: ListOptions & { skuPrefix?: string; knownAt?: Date } = {}): Pages<Price> {
    return this.transport.pages("/v1/prices", (page: ListPricesResponse) => page.prices, {
      sku_prefix: options.skuPrefix,
      known_at: options.knownAt,
      page_size: options.pageSize,
    });
  }

  /** What each SKU costs the tenant; without those that have no price. */
  async effective(
    skus: string[],
    options: { at?: Date; knownAt?: Date; serviceClass?: string; region?: string } = {},
  ): Promise<Record<string, Price>> {
    const reply = await this.transport.call<GetEffectivePricesResponse>("GET", "/v1/prices/effective", {
      query: {
        skus,
        at: options.at,
        known_at: options.knownAt,
        service_class: options.serviceClass,
        region: options.region,
      },
    });
    return reply.prices;
  }
}

export type SpendBy =
  | "day"
  | "model"
  | "tool"
  | "episode"
  | "user"
  | "team"
  | "price_version"
  | "tenant";

/** What was spent on what, and the proof of it. */
export class Ledger {
  constructor(private readonly transport: Transport) {}

  /** Sums, most expensive first, grouped by at most three things; none means one total. */
  spend(
    by: SpendBy[] = [],
    options: ListOptions & {
      startTime?: Date;
      endTime?: Date;
      episodeId?: string;
      allTenants?: boolean;
    } = {},
  ): Pages<SpendRow> {
    return this.transport.pages("/v1/spend", (page: ReportSpendResponse) => page.rows, {
      group_by: by.map((each) => `SPEND_DIMENSION_${each.toUpperCase()}`),
      start_time: options.startTime,
      end_time: options.endTime,
      episode_id: options.episodeId,
      all_tenants: options.allTenants,
      page_size: options.pageSize,
    });
  }

  /** The journal; `unpriced` keeps unknown costs. */
  entries(
    options: ListOptions & {
      episodeId?: string;
      kinds?: Entry["kind"][];
      unpriced?: boolean;
    } = {},
  ): Pages<Entry> {
    return this.transport.pages("/v1/entries", (page: ListEntriesResponse) => page.entries, {
      episode_id: options.episodeId,
      kinds: options.kinds,
      unpriced: options.unpriced,
      page_size: options.pageSize,
    });
  }

  /** Everything about one entry: its sequence, or the key of a call. */
  async explain(entry: string): Promise<Explanation> {
    const query = { entry };
    const reply = await this.transport.call<ExplainEntryResponse>("GET", "/v1/audit/explain", { query });
    return required(reply.explanation);
  }

  /** Recomputes the journal step by step; `findings` of a step say what is wrong. */
  async *verify(): AsyncGenerator<VerifyLedgerResponse> {
    let pageToken = "";
    do {
      const query = { page_token: pageToken };
      const step = await this.transport.call<VerifyLedgerResponse>("GET", "/v1/audit/verify", { query });
      yield step;
      pageToken = step.next_page_token;
    } while (pageToken);
  }

  /** Signed daily roots, oldest first. */
  anchors(options: ListOptions = {}): Pages<Anchor> {
    return this.transport.pages("/v1/audit/anchors", (page: ListAnchorsResponse) => page.anchors, {
      page_size: options.pageSize,
    });
  }

  /** That an entry is under a signed root. */
  async prove(entry: string): Promise<InclusionProof> {
    const query = { entry };
    const reply = await this.transport.call<ProveEntryResponse>("GET", "/v1/audit/proof", { query });
    return required(reply.proof);
  }

  /** Costs and corrections with their parts. A month is like 2026-11. */
  charges(month = "", options: ListOptions = {}): Pages<Charge> {
    return this.transport.pages("/v1/audit/charges", (page: ListChargesResponse) => page.charges, {
      month,
      page_size: options.pageSize,
    });
  }

  /** Rows of a table as they come; whole when `sequence` has reached `head_sequence`. */
  export(
    format: string,
    options: { month?: string; afterSequence?: string } = {},
  ): AsyncGenerator<ExportChargesResponse> {
    return this.transport.lines("/v1/audit/export", {
      format,
      month: options.month,
      after_sequence: options.afterSequence,
    });
  }

  /** Closes the books before a time; the same key again is the same closing. */
  async closePeriod(key: string, endTime: Date): Promise<Entry> {
    const body = { key, end_time: endTime };
    const reply = await this.transport.call<ClosePeriodResponse>("POST", "/v1/audit/close", { body });
    return required(reply.entry);
  }

  /** What a page of past calls would have cost with other prices. */
  async simulate(request: Input<SimulatePricesRequest>): Promise<SimulatePricesResponse> {
    return this.transport.call("POST", "/v1/audit/simulate", { body: request });
  }

  /** How many lines were new. */
  async addInvoiceLines(request: Input<AddInvoiceLinesRequest>): Promise<number> {
    const body = request;
    const reply = await this.transport.call<AddInvoiceLinesResponse>("POST", "/v1/invoices", { body });
    return reply.created_count;
  }

  /** Compares an invoice with the ledger. */
  async reconcileInvoice(invoiceId: string): Promise<ReconcileInvoiceResponse> {
    return this.transport.call("POST", path`/v1/invoices/${invoiceId}/reconcile`, { body: {} });
  }

  /** What the last comparison found. */
  invoiceMatches(invoiceId: string, options: ListOptions = {}): Pages<InvoiceMatch> {
    const items = (page: ListInvoiceMatchesResponse) => page.matches;
    return this.transport.pages(path`/v1/invoices/${invoiceId}/matches`, items, {
      page_size: options.pageSize,
    });
  }
}
