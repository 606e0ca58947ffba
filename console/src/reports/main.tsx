import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import TrainingCurves from "../screens/TrainingCurves";
import "../ui/base.css";
import { words } from "../words/en";
import { DemoReport } from "./DemoReport";
import type { ReportDocument } from "./documents";
import { EvaluationFigures } from "./EvaluationFigures";

const w = words.report;

/** A file with its data inside: the podium command writes it, and any browser opens it without a network. */
function Report({ report }: { report: ReportDocument }) {
  switch (report.kind) {
    case "evaluation":
      return (
        <EvaluationFigures
          report={report}
          episode={(id, text) => <a href={`${report.console_url}/console/episodes/${encodeURIComponent(id)}`}>{text}</a>}
        />
      );
    case "demo":
      return <DemoReport report={report} />;
    case "training":
      return <TrainingCurves steps={report.steps} />;
  }
}

function titleOf(report: ReportDocument): string {
  switch (report.kind) {
    case "evaluation":
      return w.evaluation(report.suite);
    case "demo":
      return words.demo.title;
    case "training":
      return w.training(report.run, report.steps.length);
  }
}

const report = JSON.parse(document.getElementById("report")!.textContent!) as ReportDocument;
document.title = titleOf(report);
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <main className="report">
      <h1>{titleOf(report)}</h1>
      <Report report={report} />
    </main>
  </StrictMode>,
);
