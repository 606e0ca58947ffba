import type { Schemas } from "../api/http";
import { name } from "../format";
import { words } from "../words/en";
import { Badge } from "./parts";

const w = words.guardrails;
const TONES = {
  GUARDRAIL_VERDICT_PASSED: "good",
  GUARDRAIL_VERDICT_FLAGGED: "wait",
  GUARDRAIL_VERDICT_REDACTED: "wait",
  GUARDRAIL_VERDICT_BLOCKED: "bad",
  GUARDRAIL_VERDICT_FAILED: "bad",
} as const;

/** Decisions of a policy's guardrails on one call or answer; nothing where the policy has none. */
export function Guardrails({ decisions }: { decisions: readonly Schemas["GuardrailDecision"][] | undefined }) {
  if (!decisions?.length) return null;
  return (
    <section aria-label={w.title}>
      <h3>{w.title}</h3>
      <ul className="outcomes">
        {decisions.map((each, place) => (
          <li key={place}>
            <Badge tone={TONES[each.verdict!]}>{name(each.verdict, "GUARDRAIL_VERDICT_")}</Badge> {each.guardrail},{" "}
            <span className="muted">{name(each.stage, "GUARDRAIL_STAGE_")}</span>
            {each.reason && `: ${each.reason}`}
          </li>
        ))}
      </ul>
    </section>
  );
}
