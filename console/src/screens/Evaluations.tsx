import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { get, type Schemas } from "../api/http";
import { name } from "../format";
import { Badge, Choice, Time } from "../ui/parts";
import { Empty, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";
import { EvaluationDetail } from "./EvaluationDetail";

const w = words.evaluations;
const COMPARED = 2;

type Run = Schemas["Evaluation"];

const stateOf = (run: Run) => name(run.state, "EVALUATION_STATE_");
const kindOf = (run: Run) => (run.traffic ? name(run.traffic.use, "LIVE_USE_") : "suite");

export default function Evaluations() {
  const { id } = useParams({ strict: false }) as { id?: string };
  return id ? <EvaluationDetail key={id} id={id} /> : <Runs />;
}

function Runs() {
  const search = useSearch({ strict: false }) as Record<string, string | undefined>;
  const navigate = useNavigate();
  const [ticked, setTicked] = useState<string[]>([]);
  const runs = useQuery({
    queryKey: ["evaluations"],
    queryFn: () => get<Schemas["ListEvaluationsResponse"]>("/v1/evaluations", { page_size: 500 }),
    refetchInterval: 10_000,
  });
  const change = (key: string) => (value: string) =>
    void navigate({ to: "/evaluations", search: { ...search, [key]: value || undefined } as Record<string, string>, replace: true });
  return (
    <Page
      title={w.title}
      actions={ticked.length === COMPARED && <Link to="/evaluation-compare" search={{ ids: ticked.join(",") }} className="button primary">{w.compare}</Link>}
    >
      <Loading query={runs}>
        {({ evaluations: all }) => {
          if (all.length === 0) return <Empty title={w.empty} hint={w.emptyHint} />;
          const rows = all.filter(
            (run) =>
              (!search["suite"] || run.suite === search["suite"]) &&
              (!search["state"] || stateOf(run) === search["state"]) &&
              (!search["kind"] || kindOf(run) === search["kind"]),
          );
          return (
            <>
              <div className="filters">
                <Choice label={w.suite} value={search["suite"] ?? ""} options={facet(all, (run) => run.suite, w.allSuites)} onChange={change("suite")} />
                <Choice label={w.state} value={search["state"] ?? ""} options={facet(all, stateOf, w.allStates)} onChange={change("state")} />
                <Choice label={w.kind} value={search["kind"] ?? ""} options={facet(all, kindOf, w.allKinds)} onChange={change("kind")} />
              </div>
              <p className="muted">{w.tick}</p>
              {rows.length === 0 ? (
                <Empty title={w.noMatch} hint={w.noMatchHint} />
              ) : (
                <Table
                  label={w.title}
                  rows={rows}
                  rowKey={(row) => row.id}
                  columns={[
                    {
                      title: w.pick,
                      cell: (row) => (
                        <input
                          type="checkbox" aria-label={w.pickRun(row.id)} checked={ticked.includes(row.id)}
                          onChange={(event) => setTicked((before) => [...before.filter((each) => each !== row.id), ...(event.target.checked ? [row.id] : [])].slice(-COMPARED))}
                        />
                      ),
                    },
                    { title: w.suite, cell: (row) => <Link to="/evaluations/$id" params={{ id: row.id }}>{row.suite}</Link> },
                    { title: w.kind, minor: true, cell: kindOf },
                    { title: w.arms, cell: (row) => row.arms.map((arm) => arm.name).join(", ") },
                    { title: w.state, cell: (row) => <RunState run={row} /> },
                    { title: w.started, minor: true, cell: (row) => <Time value={row.create_time} /> },
                  ]}
                />
              )}
            </>
          );
        }}
      </Loading>
    </Page>
  );
}

/** The values of a facet with how many runs have each. */
function facet(runs: readonly Run[], valueOf: (run: Run) => string, all: string): Record<string, string> {
  const counts = new Map<string, number>();
  for (const run of runs) counts.set(valueOf(run), (counts.get(valueOf(run)) ?? 0) + 1);
  return { "": all, ...Object.fromEntries([...counts].sort().map(([value, count]) => [value, `${value} (${count})`])) };
}

export function RunState({ run }: { run: Run }) {
  const state = stateOf(run);
  return <Badge tone={state === "ended" ? (run.reason ? "bad" : "good") : state === "paused" ? "wait" : "plain"}>{state}</Badge>;
}
