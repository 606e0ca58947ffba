import { Fragment, lazy, Suspense, type ReactNode } from "react";

import { duration } from "../format";
import { Interval } from "../ui/Interval";
import { Skeleton } from "../ui/Page";
import { Code, Facts } from "../ui/parts";
import { Table, type Column } from "../ui/Table";
import { words } from "../words/en";
import type { ArmChoices, ArmFigures, Baseline, EvaluationDocument, WorstTrial } from "./documents";
import { bounds, ratio, Section, short } from "./figures";
import { Judges } from "./Judges";

const w = words.report;
const Curves = lazy(() => import("../ui/Curves"));
const Scatter = lazy(() => import("../ui/Scatter"));

interface EvaluationFiguresProps {
  report: EvaluationDocument;
  /** A link to an episode. */
  episode: (id: string, text: string) => ReactNode;
}

/** What a run measured: in the console, and in the file that podium eval report writes. */
export function EvaluationFigures({ report, episode }: EvaluationFiguresProps) {
  const { arms, choices, baselines, curves, pairs } = report;
  const priced = arms.filter((each) => each.accuracy && each.cost);
  return (
    <>
      <p className="muted">{w.about(report.items, arms.length, report.repeats, report.state)}</p>
      <Section title={w.arms}>
        <Table label={w.arms} rows={arms} rowKey={(row) => row.arm} columns={ARMS} />
      </Section>
      {report.repeats > 1 && <Passes arms={arms} />}
      {priced.length > 1 && (
        <Section title={w.front} hint={w.frontHint}>
          <Suspense fallback={<Skeleton rows={4} />}>
            <Scatter
              title={w.front} x={w.cost} y={w.accuracy} formatX={usd} formatY={share}
              points={priced.map((each) => ({ name: each.arm, x: each.cost!.mean, y: each.accuracy!.mean, marked: each.on_front }))}
            />
          </Suspense>
        </Section>
      )}
      {pairs.length > 0 && (
        <Section title={w.pairs} hint={w.pairsHint}>
          <Table
            label={w.pairs}
            rows={pairs}
            rowKey={(row) => `${row.second}/${row.first}`}
            columns={[
              { title: w.arm, cell: (row) => row.second },
              { title: w.against, cell: (row) => row.first },
              { title: w.items, numeric: true, cell: (row) => row.items },
              { title: w.points, numeric: true, cell: (row) => bounds(row.accuracy, points) },
              { title: w.p, numeric: true, minor: true, cell: (row) => row.p_value.toPrecision(2) },
              { title: w.adjusted, numeric: true, cell: (row) => row.adjusted.toPrecision(2) },
              { title: w.costTimes, numeric: true, cell: (row) => ratio(row.cost_ratio, times) },
              { title: w.latencyTimes, numeric: true, cell: (row) => ratio(row.latency_ratio, times) },
            ]}
          />
        </Section>
      )}
      <Section title={w.choices} hint={w.choicesHint}>
        <Table
          label={w.choices}
          rows={choices}
          rowKey={(row) => row.arm}
          columns={[
            { title: w.arm, cell: (row) => row.arm },
            { title: w.own, numeric: true, cell: (row) => bounds(row.orchestrator_cost, usd) },
            ...choosing<ArmChoices>(),
            { title: w.calls, cell: (row) => Object.entries(row.calls).map(([name, count]) => `${name} ${count.toFixed(2)}`).join(", ") || "–" },
          ]}
        />
      </Section>
      {baselines.length > 0 && (
        <Section title={w.baselines} hint={w.baselinesHint}>
          <Table
            label={w.baselines}
            rows={baselines}
            rowKey={(row) => row.name}
            columns={[
              { title: w.rule, cell: (row) => row.name },
              { title: w.accuracy, numeric: true, cell: (row) => bounds(row.score, share) },
              { title: w.cost, numeric: true, cell: (row) => usd(row.cost) },
              ...choosing<Baseline>(),
            ]}
          />
        </Section>
      )}
      {curves.length > 0 && (
        <Section title={w.budgets} hint={w.budgetsHint}>
          <Suspense fallback={<Skeleton rows={4} />}>
            <Curves
              title={w.budgets} x={w.limit} format={share} formatX={usd}
              series={curves.map((each) => ({ name: each.name, points: each.points.map((point) => [point.limit, point.score.mean] as const) }))}
            />
          </Suspense>
          <Table
            label={w.budgets}
            rows={curves}
            rowKey={(row) => row.name}
            columns={[
              { title: w.limit, cell: (row) => row.name },
              ...curves[0]!.points.map((point, place): Column<(typeof curves)[number]> => ({
                title: usd(point.limit), numeric: true,
                cell: (row) => (row.points[place] ? <>{share(row.points[place].score.mean)}<br /><span className="muted small">{usd(row.points[place].spent)}</span></> : "–"),
              })),
            ]}
          />
        </Section>
      )}
      <Section title={w.families}>
        <Table
          label={w.families}
          rows={Object.entries(report.families)}
          rowKey={([family]) => family}
          columns={[
            { title: w.family, cell: ([family]) => family || "–" },
            ...arms.map(({ arm }): Column<[string, EvaluationDocument["families"][string]]> => ({
              title: arm, numeric: true, cell: ([, cells]) => (cells[arm] ? `${short(cells[arm].solved)} / ${cells[arm].count}` : "–"),
            })),
          ]}
        />
      </Section>
      <Judges report={report} episode={episode} />
      <Section title={w.failures} hint={w.failuresHint(report.read)}>
        <Table
          label={w.failures}
          rows={report.failures}
          rowKey={(row) => row.kind}
          columns={[
            { title: w.class, cell: (row) => row.kind },
            { title: w.meaning, minor: true, cell: (row) => row.meaning },
            ...arms.map(({ arm }): Column<EvaluationDocument["failures"][number]> => ({ title: arm, numeric: true, cell: (row) => row.counts[arm] ?? "" })),
          ]}
        />
      </Section>
      {report.worst.length > 0 && <Section title={w.worst}><Worst trials={report.worst} episode={episode} /></Section>}
      <Section title={w.comparable} hint={w.comparableHint}>
        <Facts facts={[[w.run, <code key="run">{report.id}</code>], ...Object.entries(report.comparability).map(([key, value]) => [key, <code key={key}>{value}</code>] as const)]} />
        {arms.map((each) => (
          <details key={each.arm}>
            <summary>{w.settings(each.arm)}</summary>
            <Code text={each.spec} label={each.arm} />
          </details>
        ))}
      </Section>
    </>
  );
}

const ARMS: Column<ArmFigures>[] = [
  { title: w.arm, cell: (row) => row.arm },
  { title: w.accuracy, numeric: true, cell: (row) => bounds(row.accuracy, share) },
  {
    title: w.axis,
    minor: true,
    cell: (row) => row.accuracy && <Interval label={w.interval(row.arm, share(row.accuracy.mean), share(row.accuracy.lower), share(row.accuracy.upper))} {...row.accuracy} from={0} to={1} />,
  },
  { title: w.judged, numeric: true, cell: (row) => row.judged },
  { title: w.unjudged, numeric: true, minor: true, cell: (row) => (row.unjudged ? `${row.unjudged} (${share(row.least)} … ${share(row.most)})` : 0) },
  { title: w.notRun, numeric: true, minor: true, cell: (row) => row.not_run + row.diverged },
  { title: w.cost, numeric: true, cell: (row) => bounds(row.cost, usd) },
  { title: w.perSolved, numeric: true, cell: (row) => ratio(row.cost_per_solved, usd) },
  { title: w.latency, numeric: true, cell: (row) => `${duration(1000 * row.latency_p50_s)} · ${duration(1000 * row.latency_p90_s)}` },
  { title: w.paid, minor: true, cell: (row) => [row.paid.agents, row.paid.users, row.paid.checks].join(" · ") },
];

function Passes({ arms }: { arms: ArmFigures[] }) {
  const counts = Object.keys(arms[0]?.passes ?? {});
  return (
    <Section title={w.passes} hint={w.passesHint}>
      <Table
        label={w.passes}
        rows={arms}
        rowKey={(row) => row.arm}
        columns={[
          { title: w.arm, cell: (row) => row.arm },
          ...counts.map((k): Column<ArmFigures> => ({ title: `k = ${k}`, numeric: true, cell: (row) => (row.passes[k] === undefined ? "–" : share(row.passes[k])) })),
        ]}
      />
    </Section>
  );
}

export function Worst({ trials, episode }: { trials: readonly WorstTrial[]; episode: EvaluationFiguresProps["episode"] }) {
  return (
    <Table
      label={w.worst}
      rows={trials}
      rowKey={(row) => row.episode_id}
      columns={[
        { title: w.question, cell: (row) => <><span className="pre-line">{row.question}</span><br /><code className="muted">{row.item_id}</code></> },
        { title: w.arm, cell: (row) => <>{row.arm}<br />{episode(row.episode_id, w.trace)}</> },
        { title: w.class, cell: (row) => row.kind },
        {
          title: w.why,
          cell: (row) => (
            <>
              {row.answer && <>{row.answer}<br /></>}
              <span className="muted">{row.explanation}</span>
              {(row.calls ?? []).map((call, place) => <Fragment key={place}><br /><code>{call}</code></Fragment>)}
            </>
          ),
        },
      ]}
    />
  );
}

function choosing<Row extends Omit<Baseline, "name" | "score" | "cost">>(): Column<Row>[] {
  return [
    { title: w.top, numeric: true, cell: (row) => optional(row.top_share) },
    { title: w.evenness, numeric: true, cell: (row) => optional(row.evenness) },
    { title: w.escalation, numeric: true, cell: (row) => optional(row.over_escalation) },
    { title: w.gap, numeric: true, cell: (row) => optional(row.gap_closed) },
  ];
}

const share = (value: number) => value.toFixed(3);
const usd = (value: number) => `$${value === 0 ? 0 : Number(value.toPrecision(3))}`;
const times = (value: number) => `${value.toFixed(2)}×`;
const points = (value: number) => `${value >= 0 ? "+" : ""}${(100 * value).toFixed(1)}`;
const optional = (value: number | null) => (value === null ? "–" : value.toFixed(2));
