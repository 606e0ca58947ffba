import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { get, type Schemas } from "../api/http";
import { ApiError } from "../api/http";
import { exactMoney, money } from "../format";
import type { EvaluationDocument, WorstTrial } from "../reports/documents";
import { EvaluationFigures, Worst } from "../reports/EvaluationFigures";
import { Code, Facts, Time } from "../ui/parts";
import { Empty, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";
import { RunState } from "./Evaluations";
import { Comparison, useEvaluation } from "./LiveTest";

const w = words.evaluations;
const WORST = 20;

type Progress = Schemas["ArmProgress"];

/** The figures of a run as podium eval report stored them; null before it has. */
export const reportQuery = (id: string) => ({
  queryKey: ["evaluation-report", id],
  queryFn: async () => {
    try {
      const stored = await get<Schemas["GetEvaluationReportResponse"]>(`/v1/evaluations/${encodeURIComponent(id)}/report`);
      return { report: JSON.parse(stored.report_json) as EvaluationDocument, time: stored.create_time };
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return null;
      throw error;
    }
  },
});

export const toEpisode = (id: string, text: string) => <Link to="/episodes/$id" params={{ id }}>{text}</Link>;

export function EvaluationDetail({ id }: { id: string }) {
  const found = useEvaluation(id);
  const stored = useQuery(reportQuery(id));
  const suite = found.data?.evaluation?.suite;
  return (
    <Page title={suite ? `${w.one}: ${suite}` : w.one}>
      <Loading query={found}>
        {({ evaluation, progress, comparison }) => (
          <>
            <Facts
              facts={[
                [w.state, <RunState key="state" run={evaluation!} />],
                [w.started, <Time key="started" value={evaluation!.create_time} />],
                [w.ended, <Time key="ended" value={evaluation!.end_time} />],
                [w.repeats, evaluation!.repeats || 1],
                [w.budget, evaluation!.budget_id || w.noBudget],
              ]}
            />
            {evaluation!.reason && <p className="notice">{evaluation!.reason}</p>}
            {evaluation!.traffic && (
              <section className="card" aria-label={w.test}>
                <h2>{w.test}</h2>
                <Comparison traffic={evaluation!.traffic} comparison={comparison} />
              </section>
            )}
            <h2 className="spaced">{w.progress}</h2>
            <Table
              label={w.progress}
              rows={progress}
              rowKey={(row) => row.arm!}
              columns={[
                { title: w.arm, cell: (row) => row.arm },
                { title: w.done, numeric: true, cell: (row) => `${over(row)} / ${over(row) + (row.planned_count ?? 0) + (row.running_count ?? 0)}` },
                { title: w.mean, numeric: true, cell: (row) => (row.judged_count ? ((row.score_sum ?? 0) / row.judged_count).toFixed(3) : "–") },
                { title: w.unjudged, numeric: true, minor: true, cell: (row) => row.unjudged_count ?? 0 },
                { title: w.notRun, numeric: true, minor: true, cell: (row) => (row.not_run_count ?? 0) + (row.diverged_count ?? 0) },
                { title: words.episode.cost, numeric: true, cell: (row) => <span title={exactMoney(row.cost)}>{money(row.cost, row.unpriced_call_count)}</span> },
              ]}
            />
            <Loading query={stored}>
              {(report) =>
                report ? (
                  <>
                    <h2 className="spaced">{w.figures}</h2>
                    <p className="muted">{w.computed} <Time value={report.time} /></p>
                    <EvaluationFigures report={report.report} episode={toEpisode} />
                  </>
                ) : (
                  <>
                    <h2 className="spaced">{w.figures}</h2>
                    <p>{w.notComputed}</p>
                    <Code text={`podium eval report ${id}`} label={w.command} />
                    <WorstTrials id={id} />
                  </>
                )
              }
            </Loading>
          </>
        )}
      </Loading>
    </Page>
  );
}

export const over = (row: Progress) =>
  (row.judged_count ?? 0) + (row.unjudged_count ?? 0) + (row.not_run_count ?? 0) + (row.diverged_count ?? 0);

/** The first trials that failed, before their figures were computed. */
function WorstTrials({ id }: { id: string }) {
  const trials = useQuery({
    queryKey: ["trials", id],
    queryFn: () => get<Schemas["ListTrialsResponse"]>(`/v1/evaluations/${encodeURIComponent(id)}/trials`, { page_size: 500, with_items: true }),
  });
  return (
    <>
      <h2 className="spaced">{words.report.worst}</h2>
      <Loading query={trials}>
        {({ trials: all }) => {
          const failed = all.filter((each) => each.score !== undefined && each.score < 1).sort((a, b) => a.score! - b.score!);
          return failed.length === 0 ? <Empty title={w.noneFailed} /> : <Worst trials={failed.slice(0, WORST).map(worstOf)} episode={toEpisode} />;
        }}
      </Loading>
    </>
  );
}

const worstOf = (trial: Schemas["Trial"]): WorstTrial => ({
  item_id: trial.item_id ?? "",
  question: trial.item?.question ?? "",
  arm: trial.arm ?? "",
  episode_id: trial.episode_id ?? "",
  kind: `${w.score} ${trial.score}`,
  explanation: trial.explanation ?? "",
});
