import type { ListOptions } from "./inputs.js";
import type { Pages } from "./pages.js";
import type {
  CreateEvaluationResponse,
  Evaluation,
  EvaluationItem,
  GetEvaluationResponse,
  ListEvaluationsResponse,
  ListTrialsResponse,
  ListVerdictsResponse,
  StartLiveEvaluationResponse,
  StopLiveEvaluationResponse,
  Trial,
  UpdateEvaluationResponse,
  Verdict,
} from "./schema.js";
import { path, required, type Transport } from "./transport.js";

/** Suites played by arms, and what became of every trial. */
export class Evaluations {
  constructor(private readonly transport: Transport) {}

  /** Stores a run and plans its trials; a worker starts them. `id` is the retry's, too. */
  async create(evaluation: Partial<Evaluation>, items: Partial<EvaluationItem>[]): Promise<Evaluation> {
    const body = { evaluation, items };
    const reply = await this.transport.call<CreateEvaluationResponse>("POST", "/v1/evaluations", { body });
    return required(reply.evaluation);
  }

  /** The run, and how far each arm has come. */
  async get(evaluationId: string): Promise<GetEvaluationResponse> {
    return this.transport.call<GetEvaluationResponse>("GET", path`/v1/evaluations/${evaluationId}`);
  }

  /** Newest first. */
  list(options: ListOptions = {}): Pages<Evaluation> {
    return this.transport.pages("/v1/evaluations", (page: ListEvaluationsResponse) => page.evaluations, {
      page_size: options.pageSize,
    });
  }

  /** In the order in which they are started. */
  trials(evaluationId: string, options: ListOptions & { withItems?: boolean } = {}): Pages<Trial> {
    const address = path`/v1/evaluations/${evaluationId}/trials`;
    return this.transport.pages(address, (page: ListTrialsResponse) => page.trials, {
      page_size: options.pageSize,
      with_items: options.withItems,
    });
  }

  /** Begins shadows or an A/B test of live traffic: its own arm, and a candidate. */
  async startLive(evaluation: Partial<Evaluation>): Promise<Evaluation> {
    const body = { evaluation };
    const reply = await this.transport.call<StartLiveEvaluationResponse>("POST", "/v1/live-evaluations", { body });
    return required(reply.evaluation);
  }

  /** Ends it: from the next start on, all episodes are as their callers ask. */
  async stopLive(evaluationId: string, options: { reason?: string } = {}): Promise<Evaluation> {
    const body = { reason: options.reason ?? "" };
    const address = path`/v1/live-evaluations/${evaluationId}/stop`;
    return required((await this.transport.call<StopLiveEvaluationResponse>("POST", address, { body })).evaluation);
  }

  /** Stores verdicts of judges beside those of the trials' own checks; a verdict stays. */
  async recordVerdicts(evaluationId: string, verdicts: Verdict[]): Promise<void> {
    await this.transport.call("POST", path`/v1/evaluations/${evaluationId}/verdicts`, { body: { verdicts } });
  }

  /** By trial and judge. */
  verdicts(evaluationId: string, options: ListOptions = {}): Pages<Verdict> {
    const address = path`/v1/evaluations/${evaluationId}/verdicts`;
    return this.transport.pages(address, (page: ListVerdictsResponse) => page.verdicts, {
      page_size: options.pageSize,
    });
  }

  /** Pauses, resumes or ends a run; trials that have begun continue to their end. */
  async update(
    evaluationId: string,
    state: "running" | "paused" | "ended",
    options: { reason?: string } = {},
  ): Promise<Evaluation> {
    const body = { state: `EVALUATION_STATE_${state.toUpperCase()}`, reason: options.reason ?? "" };
    const address = path`/v1/evaluations/${evaluationId}`;
    return required((await this.transport.call<UpdateEvaluationResponse>("PATCH", address, { body })).evaluation);
  }
}
