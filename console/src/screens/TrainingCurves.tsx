import type { Schemas } from "../api/http";
import { duration, percent } from "../format";
import Curves, { type Series } from "../ui/Curves";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.training;
const CALLS = "calls ";
const UNUSED = /^(rejected|dropped) /;

type Step = Schemas["TrainingStep"];

const number = (value: number) => String(Number(value.toPrecision(3)));

/** Charts in order: a figure that no step has is left out. */
const CHARTS: { title: string; names: readonly string[]; format: (value: number) => string }[] = [
  { title: w.reward, names: ["reward_mean", "reward_std"], format: number },
  { title: w.solved, names: ["reward_solved"], format: percent },
  { title: w.cost, names: ["cost_mean"], format: number },
  { title: w.latency, names: ["latency_mean_s"], format: (seconds) => duration(1000 * seconds) },
  { title: w.loss, names: ["loss"], format: number },
  { title: w.drift, names: ["drift_mean", "drift_max"], format: number },
  { title: w.lag, names: ["lag"], format: number },
];

/** By what the preferences weigh more: a policy that follows them is cheaper, or faster, there. */
const ADHERENCE: [title: string, prefix: string, format: (value: number) => string][] = [
  [w.adherenceCost, "adherence cost ", number],
  [w.adherenceLatency, "adherence latency ", (seconds) => duration(1000 * seconds)],
  [w.adherencePreferred, "adherence preferred", percent],
];

/** How a run learnt: a chart for each figure, and every figure of every step. */
export default function TrainingCurves({ steps }: { steps: readonly Step[] }) {
  const names = [...new Set(steps.flatMap((each) => Object.keys(each.figures)))];
  const series = (found: readonly string[], shown: (name: string) => string): Series[] =>
    found.map((each) => ({ name: shown(each), points: pointsOf(steps, each) })).filter((each) => each.points.length > 0);
  const tools = names.filter((each) => each.startsWith(CALLS)).sort((a, b) => last(steps, b) - last(steps, a));
  const charts = [
    ...CHARTS.map(({ title, names: drawn, format }) => ({ title, format, series: series(drawn, (each) => w.names[each] ?? each) })),
    { title: w.mix, format: number, series: series(tools, (each) => each.slice(CALLS.length)) },
    ...ADHERENCE.map(([title, prefix, format]) => ({
      title, format, series: series(names.filter((each) => each.startsWith(prefix)), (each) => each.slice(prefix.length)),
    })),
    { title: w.unused, format: number, series: series(names.filter((each) => UNUSED.test(each)), (each) => each.replaceAll("_", " ")) },
  ].filter((each) => each.series.length > 0);
  const columns = ["reward_mean", "reward_solved", "cost_mean", "latency_mean_s", "drift_mean"].filter((each) => names.includes(each));
  return (
    <>
      <div className="small-multiples">
        {charts.map((each) => <Curves key={each.title} x={w.step} {...each} />)}
      </div>
      <details>
        <summary>{w.table(steps.length)}</summary>
        <Table
          label={w.steps}
          rows={steps}
          rowKey={(row) => String(row.step)}
          columns={[
            { title: w.step, numeric: true, cell: (row) => row.step },
            ...columns.map((each) => ({
              title: w.names[each] ?? each, numeric: true, cell: (row: Step) => (row.figures[each] === undefined ? "–" : number(row.figures[each])),
            })),
          ]}
        />
      </details>
    </>
  );
}

const pointsOf = (steps: readonly Step[], name: string) =>
  steps.flatMap((each) => (each.figures[name] === undefined ? [] : [[Number(each.step), each.figures[name]] as const]));

const last = (steps: readonly Step[], name: string) => steps.at(-1)?.figures[name] ?? 0;
