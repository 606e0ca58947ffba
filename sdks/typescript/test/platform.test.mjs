// The client against a whole platform: PODIUM_URL, PODIUM_API_KEY and PODIUM_ADMIN_KEY name it. Its
// model computes 6 x 7 with the calculator, and asks for the weather of Oslo in CLIENT_TASK.

import assert from "node:assert/strict";
import { test } from "node:test";

import { EpisodeUnanswered, NotFound, Podium, kindOf, newId } from "../dist/index.js";

const { CLIENT_TASK, SLOW_TASK, PODIUM_ADMIN_KEY } = process.env;
const podium = new Podium();
const admin = new Podium({ apiKey: PODIUM_ADMIN_KEY });
const tools = ["calculator"];

test("an episode is run, its turns are seen, and its money is reported", async () => {
  const seen = [];
  const episode = await podium.episodes.run("what is 6 x 7?", {
    tools,
    budget: "0.05",
    labels: { of: "typescript" },
    onEvent: (event) => seen.push(kindOf(event)),
  });
  assert.equal(episode.answer, "42");
  const called = ["action_decided", "tool_returned"];
  assert.deepEqual(seen, ["started", ...called, ...called, "action_decided", "finished"]);
  assert.deepEqual(await podium.episodes.get(episode.id), episode);
  const [total] = await podium.ledger.spend([], { episodeId: episode.id }).all();
  assert.equal(Number(total.amounts[0].amount), Number(episode.cost.amount));
  const found = await podium.episodes.list({ labels: { of: "typescript" }, pageSize: 1 }).all();
  assert.ok(found.some((each) => each.id === episode.id));
  assert.equal((await podium.episodes.trajectory(episode.id)).cost.amount, episode.cost.amount);
});

test("functions of the client are called", async () => {
  const asked = [];
  const getWeather = {
    name: "getWeather",
    description: "Weather at our own station.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    run: ({ city }) => {
      asked.push(city);
      return { degrees: -3.5 };
    },
  };
  const episode = await podium.episodes.run(CLIENT_TASK, { tools, functions: [getWeather] });
  assert.deepEqual(asked, ["Oslo"]);
  const { turns } = await podium.episodes.trajectory(episode.id);
  assert.equal(turns[0].tool_invocations[0].observation.content, '{"degrees":-3.5}');
});

test("a cancelled episode has no answer", async () => {
  const { id } = await podium.episodes.start(SLOW_TASK, { tools });
  const waiting = podium.episodes.wait(id);
  await podium.episodes.cancel(id, "the test is over");
  await assert.rejects(waiting, (error) => {
    assert.ok(error instanceof EpisodeUnanswered);
    return error.episode.stop_reason === "STOP_REASON_CANCELLED";
  });
});

test("the same id is the same episode", async () => {
  const episodeId = newId();
  for (const _ of [1, 2]) {
    assert.equal((await podium.episodes.start("once", { tools, episodeId })).id, episodeId);
  }
});

test("an administrator manages the tenant", async () => {
  const spec = { name: "typescript-frugal", preset: "POLICY_PRESET_COST_FIRST", deny: { names: tools } };
  assert.equal((await admin.policies.create(spec)).version, 1);
  const decisions = await admin.policies.explain("typescript-frugal");
  assert.equal(decisions.find((each) => each.name === "calculator").allowed, false);
  const budget = await admin.budgets.create("typescript", "10", { window: "day", alertAt: ["8.00"] });
  const changed = await admin.budgets.update("typescript", { limit: "12.50", version: budget.version });
  assert.equal(Number(changed.hard_limit.amount), 12.5);
  assert.deepEqual(changed.soft_limits, budget.soft_limits);
  const until = new Date(Date.now() + 86_400_000);
  const { raised } = await admin.budgets.raise("typescript", "20", { until, reason: "launch" });
  assert.equal(Number(raised.amount.amount), 20);
  assert.equal((await admin.budgets.raise("typescript", "0", { reason: "over" })).raised, undefined);
  assert.ok((await admin.budgets.close("typescript")).close_time);
  const made = await admin.keys.create("typescript", { scopes: ["episodes:run"] });
  assert.ok((await admin.keys.revoke(made.api_key.id)).revoke_time);
  const log = await admin.tenancy.auditLog({ action: "CreatePolicy", resource: spec.name }).all();
  assert.deepEqual(log.map((entry) => entry.outcome), ["done"]);
});

test("webhooks are registered, listed and deleted", async () => {
  const hook = { url: "https://example.org/hook", secret: "hooks", eventTypes: ["approval_requested"] };
  await podium.webhooks.put("typescript", hook);
  const [found] = (await podium.webhooks.list().all()).filter((each) => each.id === "typescript");
  assert.equal(found.url, hook.url);
  assert.deepEqual(found.event_types, ["WEBHOOK_EVENT_TYPE_APPROVAL_REQUESTED"]);
  assert.deepEqual(await podium.webhooks.deliveries({ webhookId: "typescript" }).all(), []);
  assert.equal(await podium.webhooks.replay([], { webhookId: "typescript" }), 0);
  await podium.webhooks.delete("typescript");
});

test("what does not exist names the request", async () => {
  await assert.rejects(podium.episodes.get(newId()), (error) => {
    assert.ok(error instanceof NotFound);
    assert.equal(error.reason, "EPISODE_NOT_FOUND");
    return error.requestId !== "";
  });
});
