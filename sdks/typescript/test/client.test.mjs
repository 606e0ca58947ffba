// The client against answers that a healthy platform does not give.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import { test } from "node:test";

import {
  ApiError,
  BadRequest,
  ConfigurationError,
  Conflict,
  ConnectionFailed,
  InvalidWebhook,
  NotFound,
  Podium,
  RateLimited,
  Unavailable,
  newId,
  verifyWebhook,
} from "../dist/index.js";

const LOST = { lost: true };
const EPISODE = { body: { episode: { id: "e" } } };

function rejected(status, reason, type = "invalid_request_error", headers = {}) {
  const error = { message: `because of ${reason}`, type, reason, param: "task" };
  return { status, headers, body: { type: "error", error, request_id: "request-7" } };
}

function events(sequences, { finished = false, cut = false } = {}) {
  const text = sequences.map((sequence) => {
    const ends = finished && sequence === sequences.at(-1);
    const data = { sequence: String(sequence), [ends ? "finished" : "started"]: {} };
    return `id: ${sequence}\nevent: any\ndata: ${JSON.stringify(data)}\n\n`;
  });
  return { text: `: ping\n\n${text.join("")}`, cut };
}

// A real server that answers in order.
async function scripted(answers, use) {
  const requests = [];
  const server = createServer(async (request, response) => {
    let sent = "";
    for await (const chunk of request) sent += chunk;
    const { pathname, searchParams } = new URL(request.url, "http://server");
    const body = sent ? JSON.parse(sent) : undefined;
    requests.push({ ...request, headers: request.headers, path: pathname, query: [...searchParams], body });
    const { status = 200, headers = {}, body: answered, text, cut, lost } = answers.shift();
    if (lost) return request.socket.destroy();
    response.writeHead(status, headers);
    response.write(text ?? JSON.stringify(answered ?? {}));
    // Only what has left arrives before the connection breaks.
    if (cut) setTimeout(() => request.socket.destroy(), 100);
    else response.end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const podium = new Podium({
    baseUrl: `http://127.0.0.1:${server.address().port}/v1/`,
    apiKey: "pod_key",
    retries: { attempts: 3, firstWaitMs: 0 },
  });
  try {
    await use(podium, requests);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

async function collected(items) {
  const all = [];
  for await (const item of items) all.push(item);
  return all;
}

test("a start that is repeated is one episode", async () => {
  const away = rejected(503, "AWAY", "server_error", { "retry-after": "0" });
  await scripted([LOST, away, EPISODE], async (podium, requests) => {
    assert.equal((await podium.episodes.start("a")).id, "e");
    assert.equal(requests.length, 3);
    const ids = new Set(requests.map((request) => request.body.episode_id));
    assert.equal(ids.size, 1);
    assert.match([...ids][0], /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });
});

test("the caller's own key names the episode", async () => {
  await scripted([EPISODE], async (podium, requests) => {
    await podium.episodes.start("a", { idempotencyKey: "order-7", budget: "0.05", timeLimitS: 1.5 });
    const [{ headers, body, path }] = requests;
    assert.equal(path, "/v1/episodes");
    assert.equal(headers["idempotency-key"], "order-7");
    assert.equal(headers.authorization, "Bearer pod_key");
    const budget = { currency_code: "USD", amount: "0.05" };
    assert.deepEqual(body, { spec: { task: "a", budget, time_limit: "1.5s" } });
  });
});

test("a rejection has a class, a reason and the request id", async () => {
  await scripted([rejected(404, "POLICY_NOT_FOUND")], async (podium) => {
    const error = await podium.policies.get("none").catch((caught) => caught);
    assert.ok(error instanceof NotFound);
    const { status, reason, param, requestId, message } = error;
    assert.deepEqual([status, reason, param, requestId], [404, "POLICY_NOT_FOUND", "task", "request-7"]);
    assert.equal(message, "because of POLICY_NOT_FOUND (request request-7)");
  });
});

test("what cannot succeed later is sent once", async () => {
  for (const [answer, expected] of [
    [rejected(400, "MALFORMED"), BadRequest],
    [rejected(409, "EPISODE_EXISTS"), Conflict],
    [rejected(503, "WATCH_LOST", "server_error", { "x-should-retry": "false" }), Unavailable],
    [rejected(429, "LIMIT", "rate_limit_error", { "retry-after": "3600" }), RateLimited],
    [{ status: 418, text: "<html>" }, ApiError],
  ]) {
    await scripted([answer], async (podium, requests) => {
      await assert.rejects(podium.episodes.start("a"), expected);
      assert.equal(requests.length, 1);
    });
  }
});

test("lost changes are retried, and attempts end", async () => {
  const lost = rejected(409, "TRANSACTION_CONFLICT", "server_error");
  await scripted([lost, { body: { budget: { id: "b" } } }], async (podium) => {
    assert.equal((await podium.budgets.close("b")).id, "b");
  });
  await scripted([LOST, LOST, LOST, LOST], async (podium, requests) => {
    await assert.rejects(podium.episodes.get("e"), ConnectionFailed);
    assert.equal(requests.length, 4);
  });
});

test("a new key's text is not asked for twice", async () => {
  await scripted([LOST], async (podium, requests) => {
    await assert.rejects(podium.keys.create("ada"), ConnectionFailed);
    assert.equal(requests.length, 1);
  });
});

test("a watch goes on where it broke", async () => {
  const parts = [events([1, 2], { cut: true }), LOST, events([3, 4]), events([5], { finished: true })];
  await scripted(parts, async (podium, requests) => {
    const seen = await collected(podium.episodes.watch("e"));
    assert.deepEqual(seen.map((event) => event.sequence), ["1", "2", "3", "4", "5"]);
    const resumed = requests.map((request) => request.headers["last-event-id"]);
    assert.deepEqual(resumed, ["0", "2", "2", "4"]);
  });
});

test("the pieces of an answer are its beginning and its rest", async () => {
  const part = (start, text) => `event: answer_part\ndata: ${JSON.stringify({ turn: 1, start, text })}\n\n`;
  const answer = "Oua\u{1f600}gadougou";
  const episode = { id: "e", stop_reason: "STOP_REASON_ANSWERED", answer };
  const end = `event: finished\ndata: ${JSON.stringify({ sequence: "2", finished: { episode } })}\n\n`;
  const streams = [
    { text: part(0, "Oua\u{1f600}"), cut: true },
    { text: part(0, "Oua") + part(3, "\u{1f600}ga") + part(9, "gou") + end },
  ];
  await scripted([EPISODE, ...streams], async (podium, requests) => {
    const shown = [];
    const ended = await podium.episodes.run("Capital?", { onText: (text) => shown.push(text) });
    assert.equal(ended.answer, answer);
    assert.deepEqual(shown, ["Oua\u{1f600}", "ga", "dougou"]);
    assert.equal(requests[0].body.spec.stream_answer, true);
    assert.deepEqual(requests[1].query, [["answer_parts", "true"]]);
  });
});

test("an answer of any length comes whole", async () => {
  const answer = "\u{1f600}".repeat(200_000);
  const episode = { id: "e", stop_reason: "STOP_REASON_ANSWERED", answer };
  const end = `event: finished\ndata: ${JSON.stringify({ sequence: "1", finished: { episode } })}\n\n`;
  await scripted([{ text: end }], async (podium) => {
    const shown = [];
    await podium.episodes.wait("e", { onText: (text) => shown.push(text) });
    assert.equal(shown.length, 1);
    assert.ok(shown[0] === answer);
  });
});

test("an error inside a stream is thrown", async () => {
  const { body } = rejected(404, "EPISODE_NOT_FOUND");
  const broken = { text: `event: error\ndata: ${JSON.stringify(body)}\n\n` };
  await scripted([broken], async (podium) => {
    await assert.rejects(collected(podium.episodes.watch("e")), /EPISODE_NOT_FOUND/);
  });
});

test("lists are fetched page by page", async () => {
  const first = { body: { tools: [{ version: 1 }], next_page_token: "t" } };
  const last = { body: { tools: [{ version: 2 }], next_page_token: "" } };
  await scripted([first, last], async (podium, requests) => {
    const tools = podium.tools.list({ kinds: ["TOOL_KIND_HTTP", "TOOL_KIND_LLM"], tags: ["a"] });
    assert.deepEqual((await tools.all()).map((tool) => tool.version), [1, 2]);
    const kinds = [["kinds", "TOOL_KIND_HTTP"], ["kinds", "TOOL_KIND_LLM"], ["tags", "a"]];
    assert.deepEqual(requests.map((request) => request.query), [kinds, [...kinds, ["page_token", "t"]]]);
  });
});

test("queries hold times, labels and names with slashes", async () => {
  const empty = { body: { episodes: [], rows: [], next_page_token: "" } };
  await scripted([empty, empty, { body: { status: {} } }], async (podium, requests) => {
    await podium.episodes.list({ states: ["waiting"], labels: { team: "x&y" } }).all();
    await podium.ledger.spend(["day"], { startTime: new Date("2026-01-02T00:00:00Z") }).all();
    await podium.budgets.get("episode/e");
    const [listed, spent, budget] = requests;
    assert.deepEqual(listed.query, [["filter.states", "EPISODE_STATE_WAITING"], ["filter.labels.team", "x&y"]]);
    const group = ["group_by", "SPEND_DIMENSION_DAY"];
    assert.deepEqual(spent.query, [group, ["start_time", "2026-01-02T00:00:00.000Z"]]);
    assert.equal(budget.path, "/v1/budgets/episode%2Fe");
  });
});

test("a wait ends when its signal says so", async () => {
  await scripted([{ text: ": ping\n\n", cut: false }], async (podium) => {
    const ended = AbortSignal.abort(new Error("enough"));
    await assert.rejects(podium.episodes.wait("e", { signal: ended }), /enough/);
  });
});

test("numbers are no money", async () => {
  await scripted([], async (podium) => {
    await assert.rejects(podium.episodes.start("a", { budget: 0.1 }), /no exact amount/);
    await assert.rejects(podium.budgets.create("b", "1e3"), /no exact amount/);
  });
});

test("a client without a platform or a key says so", () => {
  assert.throws(() => new Podium({ apiKey: "k", baseUrl: "" }), ConfigurationError);
  assert.throws(() => new Podium({ baseUrl: "http://a", apiKey: "" }), ConfigurationError);
});

test("ids sort by their time", () => {
  const times = Array.from({ length: 100 }, () => newId().slice(0, 13));
  assert.deepEqual(times, [...times].sort());
  assert.ok(Math.abs(parseInt(times[0].replace("-", ""), 16) - Date.now()) < 60_000);
});

test("an event is believed only with its signature and in time", async () => {
  const key = Buffer.from(Array.from({ length: 32 }, (_, index) => index));
  const secret = `whsec_${key.toString("base64")}`;
  const other = `whsec_${Buffer.alloc(32).toString("base64")}`;
  const body = '{"type": "episode.ended", "timestamp": "2026-11-24T12:00:00Z", "data": {"id": "é"}}';
  const headersAt = (seconds) => ({
    "webhook-id": "m-1",
    "webhook-timestamp": String(seconds),
    "webhook-signature": `v1a,x v1,AAAA v1,${createHmac("sha256", key)
      .update(`m-1.${seconds}.${body}`)
      .digest("base64")}`,
  });
  const now = Math.floor(Date.now() / 1000);
  const event = await verifyWebhook(body, headersAt(now), secret);
  assert.deepEqual([event.id, event.type, event.data], ["m-1", "episode.ended", { id: "é" }]);
  assert.deepEqual(await verifyWebhook(body, new Headers(headersAt(now)), secret), event);
  for (const [sent, headers, used] of [
    [body.replace("é", "e"), headersAt(now), secret],
    [body, headersAt(now), other],
    [body, headersAt(now - 3600), secret],
    [body, { ...headersAt(now), "webhook-id": "m-2" }, secret],
    [body, {}, secret],
    [body, headersAt(now), "whsec_!"],
  ]) {
    await assert.rejects(verifyWebhook(sent, headers, used), InvalidWebhook);
  }
});
