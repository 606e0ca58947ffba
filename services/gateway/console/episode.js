// One episode on the page: its turns as they happen, its end, and what can be done to it.

import { get, post, watch } from "./api.js";
import { argumentText, element, elapsed, ended, money, seconds, state, taskOf } from "./format.js";

const main = document.getElementById("episode");
let leaving = new AbortController();

export async function openEpisode(episodeId, onChange) {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const { episode } = await get(`/v1/episodes/${episodeId}`);
  if (signal.aborted) return;
  const view = new EpisodeView(episode, onChange);
  main.replaceChildren(view.head, view.turns);
  const ticking = setInterval(() => view.tick().catch(() => {}), 1000);
  signal.addEventListener("abort", () => clearInterval(ticking));
  // Its events are content.
  if (episode.content_withheld) return;
  try {
    await watch(episodeId, (event) => view.add(event), signal);
  } catch (error) {
    if (!signal.aborted) main.append(element("p", { class: "error" }, error.message));
  } finally {
    clearInterval(ticking);
  }
}

export function closeEpisode() {
  leaving.abort();
  main.replaceChildren(element("p", { class: "empty" }, "Choose an episode, or start one."));
}

class EpisodeView {
  constructor(episode, onChange) {
    this.episode = episode;
    this.onChange = onChange;
    this.stale = false;
    this.facts = element("div", { class: "meta" });
    this.cancelButton = element("button", { onclick: () => this.cancel() }, "Cancel");
    this.title = element("div", {}, element("h2", {}, taskOf(episode)), this.facts);
    this.head = element("div", { class: "episode-head" }, this.title, this.cancelButton);
    this.turns = element("div");
    this.turnNodes = new Map();
    this.calls = new Map();
    this.showHead();
  }

  showHead() {
    const { episode } = this;
    const facts = [
      count(episode.turn_count, "turn"),
      count(episode.tool_call_count, "tool call"),
      money(episode.cost),
      elapsed(episode),
      `policy ${episode.policy_name || "default"}`,
    ];
    this.facts.replaceChildren(
      state(episode),
      ...facts.map((fact) => element("span", {}, fact)),
      element("span", { class: "id" }, episode.id),
    );
    this.cancelButton.hidden = ended(episode);
  }

  // Once a second: the clock moves, and sums are fetched rather than added up in floats.
  async tick() {
    if (this.stale && !ended(this.episode)) {
      this.stale = false;
      const { episode } = await get(`/v1/episodes/${this.episode.id}`);
      if (!ended(this.episode)) this.episode = episode;
    }
    this.showHead();
  }

  async cancel() {
    this.cancelButton.disabled = true;
    const asked = { reason: "cancelled in the console" };
    const cancel = () => post(`/v1/episodes/${this.episode.id}/cancel`, asked);
    this.cancelButton.disabled = await attempt(this.title, cancel);
  }

  add(event) {
    // Follow the newest line only for someone who is looking at it.
    const following = main.scrollHeight - main.scrollTop - main.clientHeight < 80;
    if (event.action_decided) this.addDecision(event.turn, event.action_decided);
    if (event.tool_returned) this.addReturn(event.turn, event.tool_returned);
    if (event.approval_requested) this.addApproval(event.turn, event.approval_requested);
    if (event.client_calls_requested) this.askClient(event.turn, event.client_calls_requested);
    if (event.finished) this.finish(event.finished.episode);
    this.stale = true;
    this.showHead();
    if (following) main.scrollTop = main.scrollHeight;
  }

  turn(number = 0) {
    if (!this.turnNodes.has(number)) {
      const node = element("section", { class: "turn" });
      this.turnNodes.set(number, node);
      this.turns.append(node);
    }
    return this.turnNodes.get(number);
  }

  addDecision(number, decided) {
    const { action } = decided;
    this.episode.turn_count = Math.max(this.episode.turn_count, number);
    this.turn(number).append(
      element(
        "h3",
        {},
        `Turn ${number}`,
        element("span", { class: "number" }, facts(decided)),
        decided.model_version ? element("span", { class: "number" }, decided.model_version) : null,
      ),
    );
    if (action.thought) this.turn(number).append(element("p", { class: "thought" }, action.thought));
    for (const call of action.tool_calls?.calls ?? []) this.addCall(number, call);
    if (action.malformed) {
      const words = `Not a well-formed action: ${action.malformed.message}`;
      this.turn(number).append(element("p", { class: "error" }, words));
    }
  }

  addCall(number, call) {
    const facts = element("span", { class: "number" });
    const outcome = element("div", { class: "waiting" }, "running…");
    const node = element(
      "div",
      { class: "call" },
      element("div", { class: "call-head" }, element("span", { class: "name" }, call.tool_name), facts),
      element("pre", {}, argumentText(call.arguments_json)),
      outcome,
    );
    this.turn(number).append(node);
    this.calls.set(`${number}/${call.index ?? 0}`, { facts, outcome });
  }

  addReturn(number, returned) {
    const { observation } = returned;
    const key = `${number}/${observation.call.index ?? 0}`;
    if (!this.calls.has(key)) this.addCall(number, observation.call);
    const shown = this.calls.get(key);
    this.episode.tool_call_count = Math.max(this.episode.tool_call_count, this.calls.size);
    shown.facts.textContent = facts(returned);
    const { failure } = observation;
    const kind = failure?.kind?.replace("FAILURE_KIND_", "").toLowerCase().replaceAll("_", " ");
    const result = failure
      ? element("pre", { class: "failed" }, `${kind}: ${failure.message}`)
      : element("pre", { class: "result" }, observation.content ?? "");
    shown.outcome.replaceWith(result);
    shown.outcome = result;
  }

  addApproval(number, { call }) {
    const shown = this.calls.get(`${number}/${call.index ?? 0}`);
    if (!shown) return;
    // The call's result takes its place, perhaps before the decision is answered.
    const { outcome } = shown;
    const decide = (approved) => () =>
      attempt(outcome, async () => {
        const decision = { turn: number, call_index: call.index ?? 0, approved };
        await post(`/v1/episodes/${this.episode.id}/approve`, decision);
        outcome.replaceChildren(approved ? "approved" : "denied");
      });
    outcome.replaceChildren(
      "This call waits for your approval.",
      element("button", { onclick: decide(true) }, "Approve"),
      element("button", { onclick: decide(false) }, "Deny"),
    );
  }

  askClient(number, { calls }) {
    for (const call of calls) {
      const shown = this.calls.get(`${number}/${call.index ?? 0}`);
      if (shown) shown.outcome.textContent = "waits for the client, which runs it…";
    }
  }

  finish(episode) {
    this.episode = { ...this.episode, ...episode };
    for (const { outcome } of this.calls.values()) {
      if (outcome.className === "waiting") outcome.textContent = "not finished";
    }
    const answered = episode.stop_reason === "STOP_REASON_ANSWERED";
    const failed = episode.stop_reason === "STOP_REASON_FAILED";
    const supported = answered && !episode.all_tool_calls_failed;
    const words = episode.answer || episode.failure?.message || "No answer.";
    this.turns.append(
      element(
        "section",
        { class: `answer ${supported ? "" : failed ? "bad" : "cut"}` },
        element("p", { class: "label" }, answered ? "Answer" : state(episode).textContent),
        element("p", {}, words),
        ...(episode.warnings ?? []).map((each) => element("p", { class: "note" }, each)),
      ),
    );
    this.feedback = element("div", { class: "feedback" });
    this.turns.append(this.feedback);
    attempt(this.feedback, () => this.showFeedback());
    this.onChange();
  }

  // What was said of the episode, and two buttons to say something.
  async showFeedback() {
    const { episode } = await get(`/v1/episodes/${this.episode.id}`);
    const give = (score) => () =>
      attempt(this.feedback, async () => {
        await post(`/v1/episodes/${this.episode.id}/feedback`, { score });
        await this.showFeedback();
      });
    const said = (episode.feedback ?? []).map((each) =>
      element(
        "p",
        {},
        [each.score ?? null, each.label, each.comment].filter((part) => part !== null && part !== "").join(" · "),
        element("span", { class: "number" }, each.created_by),
      ),
    );
    this.feedback.replaceChildren(
      ...said,
      element("button", { onclick: give(1) }, "Solved"),
      element("button", { onclick: give(0) }, "Not solved"),
    );
  }
}

// Whether it was done; why not stands in the place.
async function attempt(place, action) {
  place.querySelector(".error")?.remove();
  try {
    await action();
    return true;
  } catch (error) {
    place.append(element("p", { class: "error", role: "alert" }, error.message));
    return false;
  }
}

const facts = (event) =>
  [seconds(event.latency), money(event.cost)].filter(Boolean).join(" · ");

const count = (number, noun) => `${number ?? 0} ${noun}${number === 1 ? "" : "s"}`;
