import { useQueries } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";

import { get, type Schemas } from "../api/http";
import { duration, milliseconds } from "../format";
import { Code } from "../ui/parts";
import { Empty, Failure, Page, Skeleton } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";
import { toEpisode } from "./EvaluationDetail";

const w = words.evaluations;
const TRIALS_MAX = 2_000;
const SHOWN = 50;

type Trial = Schemas["Trial"];

interface Side {
  run: Schemas["Evaluation"];
  trials: Trial[];
  /** It has more trials than were read. */
  cut: boolean;
}

async function readSide(id: string): Promise<Side> {
  const path = `/v1/evaluations/${encodeURIComponent(id)}`;
  const { evaluation } = await get<Schemas["GetEvaluationResponse"]>(path);
  const trials: Trial[] = [];
  let token = "";
  do {
    const page = await get<Schemas["ListTrialsResponse"]>(`${path}/trials`, { page_size: 500, page_token: token });
    trials.push(...page.trials);
    token = page.next_page_token;
  } while (token && trials.length < TRIALS_MAX);
  return { run: evaluation!, trials, cut: token !== "" };
}

/** Two runs beside each other: what differs in their terms, their arms, and the items that one alone solved. */
export default function EvaluationCompare() {
  const { ids = "" } = useSearch({ strict: false }) as { ids?: string };
  const [first = "", second = ""] = ids.split(",");
  const sides = useQueries({
    queries: [first, second].map((id) => ({ queryKey: ["evaluation-side", id], queryFn: () => readSide(id), enabled: id !== "", staleTime: 60_000 })),
  });
  const error = sides.find((each) => each.error)?.error;
  const [a, b] = sides.map((each) => each.data);
  return (
    <Page title={w.comparison}>
      {error && <Failure error={error} />}
      {!first || !second ? <Empty title={w.choose} hint={w.chooseHint} /> : a && b ? <Compared a={a} b={b} /> : !error && <Skeleton />}
    </Page>
  );
}

function Compared({ a, b }: { a: Side; b: Side }) {
  const terms = differences(a.run, b.run);
  const arms = [a, b].flatMap((side, place) => side.run.arms.map((arm) => armOf(side, arm.name ?? "", place)));
  const items = changedItems(a, b);
  return (
    <>
      <p>
        <Link to="/evaluations/$id" params={{ id: a.run.id }}>{w.runOf(1, a.run.suite)}</Link>{" · "}
        <Link to="/evaluations/$id" params={{ id: b.run.id }}>{w.runOf(2, b.run.suite)}</Link>
      </p>
      {terms.length > 0 ? (
        <>
          <p className="notice">{w.notComparable}</p>
          <Table
            label={w.terms}
            rows={terms}
            rowKey={(row) => row.name}
            columns={[
              { title: w.term, cell: (row) => row.name },
              { title: w.first, cell: (row) => <code>{row.before}</code> },
              { title: w.second, cell: (row) => <code>{row.after}</code> },
            ]}
          />
        </>
      ) : (
        <>
          <p>{w.comparable}</p>
          <Code text={`podium eval compare ${a.run.id} ${b.run.id}`} label={w.command} />
        </>
      )}
      {(a.cut || b.cut) && <p className="notice">{w.cut(TRIALS_MAX)}</p>}
      <h2 className="spaced">{w.arms}</h2>
      <Table
        label={w.arms}
        rows={arms}
        rowKey={(row) => `${row.place}/${row.arm}`}
        columns={[
          { title: w.run, cell: (row) => w.runNumber(row.place + 1) },
          { title: w.arm, cell: (row) => row.arm },
          { title: w.judged, numeric: true, cell: (row) => row.judged },
          { title: w.mean, numeric: true, cell: (row) => row.mean?.toFixed(3) ?? "–" },
          { title: w.cost, numeric: true, cell: (row) => (row.cost === undefined ? words.unknownAmount : `$${Number(row.cost.toPrecision(3))}`) },
          { title: w.latency, numeric: true, cell: (row) => (row.latencyMs === undefined ? "–" : duration(row.latencyMs)) },
        ]}
      />
      <h2 className="spaced">{w.changed}</h2>
      {items.length === 0 ? (
        <p className="muted">{w.noneChanged}</p>
      ) : (
        <Table
          label={w.changed}
          rows={items.slice(0, SHOWN)}
          rowKey={(row) => `${row.arm}/${row.item}`}
          columns={[
            { title: w.item, cell: (row) => <code>{row.item}</code> },
            { title: w.arm, cell: (row) => row.arm },
            { title: w.first, numeric: true, cell: (row) => <>{row.before.score} {toEpisode(row.before.episode_id ?? "", words.report.trace)}</> },
            { title: w.second, numeric: true, cell: (row) => <>{row.after.score} {toEpisode(row.after.episode_id ?? "", words.report.trace)}</> },
          ]}
        />
      )}
    </>
  );
}

/** The terms of measuring that differ: with one of them, the figures are not of the same thing. */
function differences(a: Schemas["Evaluation"], b: Schemas["Evaluation"]) {
  const termsOf = (run: Schemas["Evaluation"]): Record<string, string> => ({ [w.suiteDigest]: run.suite_digest ?? "", ...run.comparability_key });
  const [before, after] = [termsOf(a), termsOf(b)];
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((name) => before[name] !== after[name])
    .map((name) => ({ name, before: before[name] ?? "–", after: after[name] ?? "–" }));
}

function armOf(side: Side, arm: string, place: number) {
  const judged = side.trials.filter((each) => each.arm === arm && each.score !== undefined);
  const mean = (values: number[]) => (values.length ? values.reduce((sum, each) => sum + each, 0) / values.length : undefined);
  const unknown = judged.some((each) => !each.cost || each.unpriced_call_count);
  return {
    arm,
    place,
    judged: judged.length,
    mean: mean(judged.map((each) => each.score!)),
    cost: unknown ? undefined : mean(judged.map((each) => Number(each.cost?.amount))),
    latencyMs: mean(judged.map((each) => milliseconds(each.latency))),
  };
}

/** Trials of one item, repeat and arm whose scores differ, the largest difference first. Runs of one arm each are paired. */
function changedItems(a: Side, b: Side) {
  const single = a.run.arms.length === 1 && b.run.arms.length === 1;
  const key = (trial: Trial) => JSON.stringify([single || trial.arm, trial.item_id, trial.repeat]);
  const earlier = new Map(a.trials.filter((each) => each.score !== undefined).map((each) => [key(each), each]));
  return b.trials
    .flatMap((after) => {
      const before = earlier.get(key(after));
      return before && after.score !== undefined && before.score !== after.score
        ? [{ item: after.item_id ?? "", arm: after.arm ?? "", before, after }]
        : [];
    })
    .sort((x, y) => Math.abs(y.after.score! - y.before.score!) - Math.abs(x.after.score! - x.before.score!));
}
