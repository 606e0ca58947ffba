import { duration, time } from "../format";
import { Badge, Facts } from "../ui/parts";
import { Table } from "../ui/Table";
import { words } from "../words/en";
import type { DemoDocument } from "./documents";

const w = words.demo;

/** What podium demo solved, paid and took. */
export function DemoReport({ report }: { report: DemoDocument }) {
  const { tasks, kinds, spend } = report;
  const right = tasks.filter((each) => each.right).length;
  const ends = Math.max(report.duration_s, ...tasks.map((each) => each.start_s + each.seconds));
  return (
    <>
      <p className="muted">{w.lead(tasks.length, kinds.length, report.models.join(", "), time(report.written), report.tools)}</p>
      <Facts
        facts={[
          [w.right, `${right} / ${tasks.length}`],
          [w.calls, spend.reduce((sum, each) => sum + each.calls, 0)],
          [w.duration, duration(1000 * report.duration_s)],
          [w.ledger, report.ledger],
          [w.agree, <Badge key="agree" tone={report.agree ? "good" : "bad"}>{report.agree ? w.equal : w.differs(report.trajectories)}</Badge>],
        ]}
      />
      <section className="report-section">
        <h2>{w.kinds}</h2>
        <Table
          label={w.kinds}
          rows={kinds}
          rowKey={(row) => row.kind}
          columns={[
            { title: w.kind, cell: (row) => row.kind },
            { title: w.rightOf, numeric: true, cell: (row) => `${row.right} / ${row.total}` },
            { title: w.share, cell: (row) => <Bars total={row.total} parts={[["bar-good", row.right], ["bar-other", row.total - row.right]]} label={w.rightLabel(row.right, row.total)} /> },
          ]}
        />
      </section>
      <section className="report-section">
        <h2>{w.tasks}</h2>
        <ul className="legend">
          {Object.entries(w.legend).map(([className, name]) => (
            <li key={name}><svg width="10" height="10" aria-hidden="true"><rect width="10" height="10" className={className} /></svg> {name}</li>
          ))}
        </ul>
        <Table
          label={w.tasks}
          rows={tasks}
          rowKey={(row) => row.id}
          columns={[
            { title: w.question, cell: (row) => <>{row.question}<br /><a href={`${report.console_url}/console/episodes/${encodeURIComponent(row.episode_id)}`}>{w.trace}</a></> },
            { title: w.kind, minor: true, cell: (row) => row.kind },
            { title: w.called, cell: (row) => <>{row.called || "–"}{row.failed_calls > 0 && <><br /><span className="muted small">{w.failed(row.failed_calls)}</span></>}</> },
            { title: w.answer, cell: (row) => row.answer || <span className="muted">{w.none(row.stop_reason)}</span> },
            { title: w.expected, minor: true, cell: (row) => row.expected },
            { title: w.verdict, cell: (row) => <Badge tone={row.right ? "good" : "bad"}>{row.right ? w.isRight : w.isWrong}</Badge> },
            { title: w.cost, numeric: true, cell: (row) => row.cost },
            { title: w.took, numeric: true, cell: (row) => duration(1000 * row.seconds) },
            {
              title: w.timeline,
              minor: true,
              cell: (row) => (
                <Bars
                  total={ends} from={row.start_s} label={w.timeLabel(duration(1000 * row.model_s), duration(1000 * row.tools_s))}
                  parts={[["bar-model", row.model_s], ["bar-tool", row.tools_s], ["meter-held", Math.max(0, row.seconds - row.model_s - row.tools_s)]]}
                />
              ),
            },
          ]}
        />
      </section>
      <section className="report-section">
        <h2>{w.spend}</h2>
        <Table
          label={w.spend}
          rows={spend}
          rowKey={(row) => row.name}
          columns={[
            { title: w.on, cell: (row) => row.name },
            { title: w.calls, numeric: true, cell: (row) => row.calls },
            { title: w.unpriced, numeric: true, cell: (row) => row.unpriced_calls || "" },
            { title: w.cost, numeric: true, cell: (row) => row.cost },
          ]}
        />
        <p className="muted">{w.live} <a href={`${report.console_url}/console`}>{report.console_url}/console</a></p>
      </section>
    </>
  );
}

interface BarsProps {
  total: number;
  from?: number;
  parts: readonly (readonly [className: string, size: number])[];
  label: string;
}

/** Parts beside each other, as shares of a total. */
function Bars({ total, from = 0, parts, label }: BarsProps) {
  const percentOf = (size: number) => `${(100 * size) / (total || 1)}%`;
  let at = from;
  return (
    <svg className="bars" role="img" aria-label={label}>
      <title>{label}</title>
      {parts.map(([className, size]) => {
        const x = at;
        at += size;
        return size > 0 && <rect key={className} className={className} x={percentOf(x)} width={percentOf(size)} height="100%" />;
      })}
    </svg>
  );
}
