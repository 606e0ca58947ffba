import { Fragment, type ReactNode } from "react";

import { Table } from "../ui/Table";
import { words } from "../words/en";
import type { EvaluationDocument, JudgeFigures } from "./documents";
import { bounds, Section, short } from "./figures";

const w = words.report;

interface JudgesProps {
  report: EvaluationDocument;
  episode: (id: string, text: string) => ReactNode;
}

/** What the models that judged a run found, how far they agree, and the trials on which they do not. */
export function Judges({ report, episode }: JudgesProps) {
  if (report.judges.length === 0) return null;
  const together = report.all_agree;
  return (
    <>
      <Section title={w.judges} hint={w.judgesHint}>
        <Table
          label={w.judges}
          rows={report.judges}
          rowKey={(row) => row.judge}
          columns={[
            { title: w.judge, cell: (row) => row.judge },
            { title: w.right, numeric: true, cell: (row) => row.right },
            { title: w.wrong, numeric: true, cell: (row) => row.wrong },
            { title: w.noVerdict, numeric: true, cell: (row) => row.unjudged },
            { title: w.costOfJudge, numeric: true, cell: (row) => (row.cost === null ? words.unknownAmount : `$${row.cost}`) },
          ]}
        />
      </Section>
      <Section title={w.calibration} hint={w.calibrationHint}>
        <Table
          label={w.calibration}
          rows={report.judges}
          rowKey={(row) => row.judge}
          columns={[
            { title: w.judge, cell: (row) => row.judge },
            { title: w.labels, cell: ({ calibration }) => (calibration ? w.calibrated(calibration.name, calibration.date, calibration.model, calibration.tool_version) : w.notCalibrated) },
            { title: w.answers, numeric: true, cell: (row) => row.calibration?.agreement.judged ?? "–" },
            { title: w.noVerdict, numeric: true, minor: true, cell: (row) => row.calibration?.agreement.unjudged ?? "–" },
            { title: w.accuracy, numeric: true, cell: (row) => labelled(row, "accuracy") },
            { title: w.kappa, numeric: true, cell: (row) => labelled(row, "kappa") },
            { title: w.falsePositives, numeric: true, cell: (row) => labelled(row, "false_positives") },
            { title: w.falseNegatives, numeric: true, cell: (row) => labelled(row, "false_negatives") },
          ]}
        />
      </Section>
      <Section title={w.agreement} hint={w.agreementHint}>
        {together && <p>{w.allAgree(together.judges, together.trials, together.kappa === null ? w.undefinedKappa : short(together.kappa))}</p>}
        <Table
          label={w.agreement}
          rows={report.agreements}
          rowKey={(row) => `${row.first}/${row.second}`}
          columns={[
            { title: w.judge, cell: (row) => row.first },
            { title: w.and, cell: (row) => row.second },
            { title: w.trials, numeric: true, cell: (row) => row.trials },
            { title: w.equal, numeric: true, cell: (row) => row.equal },
            { title: w.kappa, numeric: true, cell: (row) => bounds(row.kappa, short) },
          ]}
        />
      </Section>
      {report.disagreeing > 0 && (
        <Section title={w.disagreements} hint={w.disagreementsHint(report.disagreeing, report.disagreements.length)}>
          <Table
            label={w.disagreements}
            rows={report.disagreements}
            rowKey={(row) => row.episode_id}
            columns={[
              { title: w.item, cell: (row) => <><code>{row.item_id}</code><br />{episode(row.episode_id, w.trace)}</> },
              { title: w.arm, cell: (row) => row.arm },
              { title: w.score, numeric: true, cell: (row) => (row.score === null ? w.noVerdict : short(row.score)) },
              {
                title: w.verdicts,
                cell: (row) =>
                  Object.entries(row.verdicts).map(([judge, right], place) => (
                    <Fragment key={judge}>{place > 0 && <br />}{judge}: {right === null ? w.noVerdict : right ? w.isRight : w.isWrong}</Fragment>
                  )),
              },
            ]}
          />
        </Section>
      )}
    </>
  );
}

const labelled = ({ calibration }: JudgeFigures, figure: "accuracy" | "kappa" | "false_positives" | "false_negatives") =>
  calibration ? bounds(calibration.agreement[figure], short) : "–";
