// How values look to a person. Text only ever enters the page as text, never as HTML.

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// An exact decimal string, shown without trailing zeros; unset is unknown, not zero.
export function money(value) {
  if (!value?.amount) return "cost unknown";
  const amount = value.amount.includes(".") ? value.amount.replace(/\.?0+$/, "") : value.amount;
  return `${amount || "0"} ${value.currency_code}`;
}

export function seconds(duration) {
  if (!duration) return null;
  const value = Number.parseFloat(duration);
  return value < 10 ? `${value.toFixed(2)} s` : `${Math.round(value)} s`;
}

export function taskOf(episode) {
  return episode.content_withheld ? "Content withheld: reading it needs trajectories:read." : episode.spec.task;
}

export function elapsed(episode) {
  const end = episode.end_time ? new Date(episode.end_time) : new Date();
  return seconds(`${Math.max(0, (end - new Date(episode.create_time)) / 1000)}s`);
}

export function clock(time) {
  return new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

// Arguments as they are; a program among them keeps its lines.
export function argumentText(text) {
  let values;
  try {
    values = JSON.parse(text);
  } catch {
    return text;
  }
  const line = JSON.stringify(values);
  if (line.length < 80) return line;
  return Object.entries(values)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? block(value) : JSON.stringify(value)}`)
    .join("\n");
}

const block = (text) => (text.includes("\n") ? `\n  ${text.replaceAll("\n", "\n  ")}` : text);

const STATES = {
  EPISODE_STATE_PENDING: ["pending", "live"],
  EPISODE_STATE_RUNNING: ["running", "live"],
  EPISODE_STATE_WAITING: ["waits for someone", "wait"],
};
const ENDINGS = {
  STOP_REASON_ANSWERED: ["answered", "good"],
  STOP_REASON_TURN_LIMIT: ["turn limit", "wait"],
  STOP_REASON_OUTPUT_LIMIT: ["output limit", "wait"],
  STOP_REASON_BUDGET_EXHAUSTED: ["budget exhausted", "wait"],
  STOP_REASON_DEADLINE: ["deadline", "wait"],
  STOP_REASON_CANCELLED: ["cancelled", "wait"],
  STOP_REASON_FAILED: ["failed", "bad"],
};

export function state(episode) {
  const [words, tone] = STATES[episode.state] ?? ENDINGS[episode.stop_reason] ?? ["unknown", "wait"];
  return element("span", { class: `state ${tone}` }, words);
}

export const ended = (episode) => episode.state === "EPISODE_STATE_FINISHED";
