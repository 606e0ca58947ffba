// The page around the episode: sign-in, the list, the spend chart, the start box.

import { ApiError, forgetKey, get, post, saveKey, savedKey } from "./api.js";
import { closeEpisode, openEpisode } from "./episode.js";
import { clock, element, ended, money, state, taskOf } from "./format.js";

const REFRESH_MS = 2000;
const PAGE_SIZE = 25;
const BARS = 8;
const MOST_POLICIES = 500;
const byId = (id) => document.getElementById(id);

let refreshing;
let shownRows = PAGE_SIZE;

byId("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  saveKey(byId("key").value.trim());
  await enter();
});

byId("sign-out").addEventListener("click", () => leave(""));

byId("more").addEventListener("click", () => {
  shownRows += PAGE_SIZE;
  refresh();
});

byId("start").addEventListener("submit", async (event) => {
  event.preventDefault();
  byId("start-error").textContent = "";
  const spec = { task: byId("task").value, model: byId("model").value, policy: byId("policy").value };
  try {
    const { episode } = await post("/v1/episodes", { spec });
    byId("task").value = "";
    location.hash = episode.id;
    await refresh();
  } catch (error) {
    byId("start-error").textContent = error.message;
  }
});

byId("task").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("start").requestSubmit();
});

window.addEventListener("hashchange", showChosen);

async function enter() {
  try {
    await fillChoices();
  } catch (error) {
    return leave(error.message);
  }
  byId("sign-in").hidden = true;
  byId("app").hidden = false;
  await refresh();
  refreshing = setInterval(refresh, REFRESH_MS);
  showChosen();
}

function leave(reason) {
  clearInterval(refreshing);
  closeEpisode();
  forgetKey();
  byId("key").value = "";
  byId("app").hidden = true;
  byId("sign-in").hidden = false;
  byId("sign-in-error").textContent = reason;
  byId("key").focus();
}

async function fillChoices() {
  const { data } = await get("/v1/models");
  const policies = await get("/v1/policies", { page_size: MOST_POLICIES });
  const models = data.map(({ id }) => id).filter((id) => runsEpisodes(id) && !hasPolicy(id, policies));
  choose("model", "default model", models);
  choose("policy", "default policy", policies.policies.map(({ spec }) => spec.name));
}

// "podium" is the default one, and models of tools are called without an episode.
const runsEpisodes = (id) => id !== "podium" && !id.startsWith("tool/");

const hasPolicy = (id, { policies }) => policies.some(({ spec }) => id.endsWith(`:${spec.name}`));

function choose(id, standard, names) {
  const options = names.map((name) => element("option", { value: name }, name));
  byId(id).replaceChildren(element("option", { value: "" }, standard), ...options);
}

async function refresh() {
  if (document.hidden) return;
  try {
    const [page, spend] = await Promise.all([
      get("/v1/episodes", { page_size: shownRows }),
      get("/v1/spend", { group_by: "SPEND_DIMENSION_TOOL" }).catch(({ message }) => ({ rows: [], message })),
    ]);
    showEpisodes(page);
    showSpend(spend);
    byId("connection").textContent = "";
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) leave(error.message);
    else byId("connection").textContent = `not up to date: ${error.message}`;
  }
}

function showEpisodes({ episodes, next_page_token }) {
  const focused = document.activeElement?.dataset?.episode;
  byId("episodes").replaceChildren(...episodes.map(row));
  if (!episodes.length) byId("episodes").append(element("li", { class: "muted" }, "None yet."));
  byId("more").hidden = !next_page_token;
  // The list was rebuilt under the keyboard's focus.
  if (focused) document.querySelector(`[data-episode="${focused}"]`)?.focus();
}

function row(episode) {
  const current = location.hash.slice(1) === episode.id ? "true" : null;
  const facts = [
    state(episode),
    element("span", {}, clock(episode.create_time)),
    ended(episode) ? element("span", {}, money(episode.cost)) : null,
  ];
  return element(
    "li",
    {},
    element(
      "button",
      {
        "aria-current": current,
        "data-episode": episode.id,
        onclick: () => {
          location.hash = episode.id;
        },
      },
      element("span", { class: "task-line" }, taskOf(episode)),
      element("span", { class: "meta" }, ...facts.filter(Boolean)),
    ),
  );
}

// The message says why nothing is known.
function showSpend({ rows, message = "Nothing spent yet." }) {
  const bars = rows
    .flatMap(({ values, amounts, call_count }) => amounts.map((amount) => ({ tool: values[0], amount, call_count })))
    .slice(0, BARS);
  const most = Math.max(...bars.map(({ amount }) => Number(amount.amount)), 0);
  byId("spend").replaceChildren(...bars.map((bar) => spendBar(bar, most)));
  if (!bars.length) byId("spend").append(element("p", { class: "muted" }, message));
}

function spendBar({ tool, amount, call_count }, most) {
  const name = tool || "orchestrator";
  const sum = `${money(amount)} · ${call_count} ${call_count === "1" ? "call" : "calls"}`;
  const fill = element("div", { class: "fill" });
  fill.style.width = `${(100 * Number(amount.amount)) / (most || 1)}%`;
  return element(
    "div",
    { class: "bar" },
    element("span", {}, name),
    element("span", { class: "number" }, sum),
    element("div", { class: "track", "aria-hidden": "true" }, fill),
  );
}

function showChosen() {
  const episodeId = location.hash.slice(1);
  for (const button of byId("episodes").querySelectorAll("button")) {
    if (button.dataset.episode === episodeId) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
  if (!savedKey() || !episodeId) return;
  openEpisode(episodeId, refresh).catch((error) => {
    byId("episode").replaceChildren(element("p", { class: "error" }, error.message));
  });
}

if (savedKey()) enter();
else leave("");
