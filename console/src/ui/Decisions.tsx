import type { Schemas } from "../api/http";
import { words } from "../words/en";
import { Badge } from "./parts";
import { Table } from "./Table";

const w = words.policies;

type Decision = Schemas["ToolDecision"];

/** Whether a tool may be used, and whether a person decides on each call. */
export function Verdict({ decision }: { decision: Decision }) {
  if (!decision.allowed) return <Badge tone="bad">{w.denied}</Badge>;
  return decision.needs_approval ? <Badge tone="wait">{w.asks}</Badge> : <Badge tone="good">{w.allowed}</Badge>;
}

export const sameVerdict = (one: Decision | undefined, other: Decision | undefined) =>
  one?.allowed === other?.allowed && one?.needs_approval === other?.needs_approval;

interface DecisionsProps {
  label: string;
  decisions: readonly Decision[];
  /** Decisions of another policy: those that differ are marked and come first. */
  before?: readonly Decision[] | undefined;
  /** Names of tools to mark. */
  marked?: ReadonlySet<string>;
}

/** A table of which tools may be used, and by which rule. */
export function Decisions({ label, decisions, before, marked }: DecisionsProps) {
  const earlier = new Map(before?.map((each) => [each.name, each]));
  const changed = (each: Decision) => before !== undefined && !sameVerdict(earlier.get(each.name), each);
  const rows = [...decisions].sort((a, b) => Number(changed(b)) - Number(changed(a)));
  return (
    <Table
      label={label}
      rows={rows}
      rowKey={(row) => row.name}
      columns={[
        {
          title: w.toolAndRule,
          cell: (row) => (
            <>
              {row.name}
              {marked?.has(row.name) && " ●"}
              <br />
              <span className="muted small">{row.reason}</span>
            </>
          ),
        },
        {
          title: w.allowed,
          cell: (row) => (
            <>
              <Verdict decision={row} />
              {changed(row) && <span className="small muted nowrap"> {w.changed}</span>}
            </>
          ),
        },
      ]}
    />
  );
}
