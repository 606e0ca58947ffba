import { EpisodeUnanswered, PodiumError } from "./errors.js";
import { called, offered, type ClientFunction } from "./functions.js";
import { newId } from "./ids.js";
import { money, type Amount, type CallOptions, type Input, type ListOptions } from "./inputs.js";
import type { Pages } from "./pages.js";
import type {
  Check,
  ClientResult,
  ConversationMessage,
  Episode,
  EpisodeEvent,
  EpisodeSpec,
  Feedback,
  GetTrajectoryResponse,
  Group,
  ListApprovalsResponse,
  ListEpisodesResponse,
  Sampling,
  Trajectory,
  WaitingApproval,
} from "./schema.js";
import {
  path,
  required,
  type AnswerPart,
  type EventOptions,
  type Transport,
} from "./transport.js";

export type EpisodeState = "pending" | "running" | "waiting" | "finished";

const KINDS = [
  "started",
  "action_decided",
  "tool_returned",
  "approval_requested",
  "client_calls_requested",
  "verifier_called",
  "judged",
  "finished",
] as const;
export type EventKind = (typeof KINDS)[number] | "unknown";

/** Everything beside the task; what is left out is the tenant's or the platform's default. */
export interface EpisodeOptions extends CallOptions {
  /** A policy's name. */
  policy?: string;
  /** Keeps only these registered tools. */
  tools?: string[];
  /** Functions that run here. */
  functions?: ClientFunction[];
  /** An orchestrator's name. */
  model?: string;
  /** Most money. */
  budget?: Amount;
  turnLimit?: number;
  /** Most tool calls in one turn. */
  parallelCalls?: number;
  /** Longest run in seconds. */
  timeLimitS?: number;
  /** JSON Schema of the answer, an object. */
  answer?: Record<string, unknown>;
  /** How earlier turns are shown to the model. */
  promptMode?: "stateless" | "chat" | "template";
  sampling?: Input<Sampling>;
  /** Earlier messages of the conversation, oldest first. */
  history?: ConversationMessage[];
  /** At most 16, kept with the episode. */
  labels?: Record<string, string>;
  /** Scores the answer. */
  check?: Input<Check>;
  group?: Input<Group>;
  /** Tools of which one is called before anything else is decided. */
  firstTools?: string[];
  /** A UUIDv7: the same one finds the episode that it started before. */
  episodeId?: string;
  /** Any text, remembered for seven days: the same one finds the episode that it started. */
  idempotencyKey?: string;
  /** Lets watchers see the answer while it is written. */
  streamAnswer?: boolean;
}

export interface WaitOptions extends CallOptions {
  functions?: ClientFunction[];
  onEvent?: (event: EpisodeEvent) => void;
  /** Gets the answer piece by piece: while it is written, if the episode has `streamAnswer`. */
  onText?: (text: string) => void;
}

/** What happened; the field of that name is set. Unknown for what only a newer platform tells. */
export function kindOf(event: EpisodeEvent): EventKind {
  return KINDS.find((kind) => event[kind] !== undefined) ?? "unknown";
}

/** The text of an answer that was shown while attempts at its turns wrote it. */
class WrittenAnswer {
  // Code points, as parts count them.
  private text: string[] = [];
  private place = 0;

  constructor(private readonly show: (text: string) => void) {}

  /**
   * Shows what a part adds: nothing after a lost part, or as long as an attempt repeats or
   * contradicts what was shown.
   */
  add({ start, text }: AnswerPart): void {
    if (start !== 0 && start !== this.place) return;
    const part = [...text];
    this.place = start + part.length;
    const known = this.text.slice(start, this.place);
    if (known.every((character, index) => character === part[index])) {
      this.shown(part.slice(known.length));
    } else {
      this.place = -1;
    }
  }

  /** Shows the rest of the whole answer. */
  end(answer: string): void {
    const whole = [...answer];
    if (this.text.every((character, index) => character === whole[index])) {
      this.shown(whole.slice(this.text.length));
    }
  }

  private shown(characters: string[]): void {
    // One by one: a long answer has more characters than a call may have arguments.
    for (const character of characters) this.text.push(character);
    if (characters.length) this.show(characters.join(""));
  }
}

/** Durable runs of an orchestrator and its tools. */
export class Episodes {
  constructor(private readonly transport: Transport) {}

  /**
   * Starts an episode, runs the functions that it calls, and waits for its answer. `onText` gets it
   * while it is written, where nothing may change it any more. Throws EpisodeUnanswered.
   */
  async run(
    task: string,
    options: EpisodeOptions & Pick<WaitOptions, "onEvent" | "onText"> = {},
  ): Promise<Episode> {
    const { onEvent, onText, ...started } = options;
    if (onText) started.streamAnswer = true;
    const episode = await this.start(task, started);
    return this.wait(episode.id, {
      ...(options.functions && { functions: options.functions }),
      ...(options.signal && { signal: options.signal }),
      ...(onEvent && { onEvent }),
      ...(onText && { onText }),
    });
  }

  /**
   * Starts an episode and returns at once. Without `episodeId` and `idempotencyKey` the client makes
   * an id, so that its own repetitions start one episode.
   */
  async start(task: string, options: EpisodeOptions = {}): Promise<Episode> {
    const key = options.idempotencyKey;
    const reply = await this.transport.call<{ episode?: Episode }>("POST", "/v1/episodes", {
      body: {
        ...(key ? {} : { episode_id: options.episodeId ?? newId() }),
        spec: specOf(task, options),
      },
      ...(key && { headers: { "idempotency-key": key } }),
      signal: options.signal,
    });
    return required(reply.episode);
  }

  /**
   * The episode once it has answered; runs the functions that it calls meanwhile. Calls of turns
   * before its newest were answered, and are not run again. Those of the newest may be, where a
   * program ended before the episode went on.
   */
  async wait(episodeId: string, options: WaitOptions = {}): Promise<Episode> {
    const { functions = [], onEvent, onText, signal } = options;
    const before = functions.length ? await this.get(episodeId) : undefined;
    const written = onText && new WrittenAnswer(onText);
    const onPart = written && ((part: AnswerPart) => written.add(part));
    for await (const event of this.events(episodeId, { onPart, signal })) {
      if (event.finished) written?.end(required(event.finished.episode).answer);
      onEvent?.(event);
      if (event.client_calls_requested && before && mayWait(before, event)) {
        const calls = event.client_calls_requested.calls;
        const results = await Promise.all(calls.map((call) => called(functions, call)));
        await this.answer(episodeId, event.turn, results);
      }
      if (event.finished) {
        const episode = required(event.finished.episode);
        if (episode.stop_reason !== "STOP_REASON_ANSWERED") throw new EpisodeUnanswered(episode);
        return episode;
      }
    }
    throw new PodiumError(`the stream of episode ${episodeId} ended before the episode did`);
  }

  /**
   * What happened and what happens, until the episode ends. A broken connection is taken up where
   * it broke. `after` is the sequence of the last event that is known already.
   */
  async *watch(
    episodeId: string,
    options: CallOptions & { after?: string } = {},
  ): AsyncGenerator<EpisodeEvent> {
    yield* this.events(episodeId, options);
  }

  private async *events(episodeId: string, options: EventOptions): AsyncGenerator<EpisodeEvent> {
    const address = path`/v1/episodes/${episodeId}/events`;
    for await (const event of this.transport.events<EpisodeEvent>(address, options)) {
      yield event;
      if (event.finished) return;
    }
  }

  /** The episode as it is now. */
  async get(episodeId: string): Promise<Episode> {
    return this.one("GET", path`/v1/episodes/${episodeId}`);
  }

  /** Newest first; only those in one of the states, with all of the labels. */
  list(
    options: ListOptions & { states?: EpisodeState[]; labels?: Record<string, string> } = {},
  ): Pages<Episode> {
    return this.transport.pages("/v1/episodes", (page: ListEpisodesResponse) => page.episodes, {
      "filter.states": (options.states ?? []).map((state) => `EPISODE_STATE_${state.toUpperCase()}`),
      "filter.labels": options.labels ?? {},
      page_size: options.pageSize,
    });
  }

  /** Cancels it; one that has ended stays as it is. */
  async cancel(episodeId: string, reason = ""): Promise<Episode> {
    return this.one("POST", path`/v1/episodes/${episodeId}/cancel`, { reason });
  }

  /** The tenant's calls that wait for a person. */
  approvals(options: ListOptions = {}): Pages<WaitingApproval> {
    const items = (page: ListApprovalsResponse) => page.approvals;
    return this.transport.pages("/v1/approvals", items, { page_size: options.pageSize });
  }

  /** Lets a call be made that waits for a person. */
  async approve(episodeId: string, turn: number, callIndex: number, reason = ""): Promise<Episode> {
    return this.decide(episodeId, turn, callIndex, true, reason);
  }

  /** Rejects a call that waits for a person; the model sees that it was denied. */
  async deny(episodeId: string, turn: number, callIndex: number, reason = ""): Promise<Episode> {
    return this.decide(episodeId, turn, callIndex, false, reason);
  }

  /** Gives the results of all calls of a turn that wait for this client. */
  async answer(episodeId: string, turn: number, results: ClientResult[]): Promise<Episode> {
    return this.one("POST", path`/v1/episodes/${episodeId}/tool-results`, { turn, results });
  }

  /**
   * Says how good an ended episode was; a score is from 0 to 1, and 1 is solved. The same again
   * changes nothing.
   */
  async giveFeedback(
    episodeId: string,
    said: { score?: number; label?: string; comment?: string; id?: string },
  ): Promise<Feedback> {
    const address = path`/v1/episodes/${episodeId}/feedback`;
    const reply = await this.transport.call<{ feedback?: Feedback }>("POST", address, {
      body: said,
    });
    return required(reply.feedback);
  }

  /** Everything that happened in an ended episode, as trainers see it. */
  async trajectory(episodeId: string): Promise<Trajectory> {
    const address = path`/v1/episodes/${episodeId}/trajectory`;
    const reply = await this.transport.call<GetTrajectoryResponse>("GET", address);
    return required(reply.trajectory);
  }

  private decide(
    episodeId: string,
    turn: number,
    callIndex: number,
    approved: boolean,
    reason: string,
  ): Promise<Episode> {
    const body = { turn, call_index: callIndex, approved, reason };
    return this.one("POST", path`/v1/episodes/${episodeId}/approve`, body);
  }

  private async one(method: string, address: string, body?: unknown): Promise<Episode> {
    const reply = await this.transport.call<{ episode?: Episode }>(method, address, { body });
    return required(reply.episode);
  }
}

/** Whether the calls of an event were not yet answered when the episode was as `before`. */
function mayWait(before: Episode, event: EpisodeEvent): boolean {
  return before.state !== "EPISODE_STATE_FINISHED" && event.turn >= before.turn_count;
}

function specOf(task: string, options: EpisodeOptions): Input<EpisodeSpec> {
  const spec: Input<EpisodeSpec> = {
    task,
    policy: options.policy,
    tool_names: options.tools,
    model: options.model,
    budget: options.budget === undefined ? undefined : money(options.budget),
    turn_limit: options.turnLimit,
    parallel_calls: options.parallelCalls,
    time_limit: options.timeLimitS === undefined ? undefined : `${options.timeLimitS}s`,
    answer_json_schema: options.answer && JSON.stringify(options.answer),
    sampling: options.sampling,
    history: options.history,
    labels: options.labels,
    check: options.check,
    group: options.group,
    first_tool_names: options.firstTools,
    client_tools: options.functions?.map(offered),
    stream_answer: options.streamAnswer,
  };
  if (options.promptMode) {
    const mode = `PROMPT_MODE_${options.promptMode.toUpperCase()}`;
    spec.prompt_mode = mode as EpisodeSpec["prompt_mode"];
  }
  return spec;
}
