import type { Schemas } from "../api/http";
import { withoutUnset } from "../format";

export type PolicySpec = Schemas["PolicySpec"];
type Selector = Schemas["ToolSelector"];

const PREFIXES = { kind: "kinds", tag: "tags", provider: "providers", model: "models" } as const;
const KIND = "TOOL_KIND_";

/** Writes a selector as "calculator, tag:web, kind:llm". */
export function selectorText(selector: Selector | undefined): string {
  if (!selector) return "";
  const parts = Object.entries(PREFIXES).flatMap(([prefix, field]) =>
    (selector[field] ?? []).map((each) => `${prefix}:${prefix === "kind" ? each.replace(KIND, "").toLowerCase() : each}`),
  );
  return [...(selector.names ?? []), ...parts].join(", ");
}

/** Reads what selectorText writes; a part without a known prefix is the name of a tool. */
export function selectorOf(text: string): Selector | undefined {
  const selector: Record<string, string[]> = {};
  for (const part of listOf(text)) {
    const [, prefix = "", value = ""] = /^(kind|tag|provider|model):\s*(.+)$/.exec(part) ?? [];
    if (!prefix) (selector["names"] ??= []).push(part);
    else (selector[PREFIXES[prefix as keyof typeof PREFIXES]] ??= []).push(prefix === "kind" ? KIND + value.toUpperCase() : value);
  }
  return Object.keys(selector).length ? (selector as unknown as Selector) : undefined;
}

export function listOf(text: string): string[] {
  return text.split(",").map((each) => each.trim()).filter(Boolean);
}

export const specText = (spec: PolicySpec | undefined) => JSON.stringify(withoutUnset(spec ?? {}), null, 2);
