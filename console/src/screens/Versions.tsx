import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";

import { get, type Schemas } from "../api/http";
import { name } from "../format";
import { Badge } from "../ui/parts";
import { Empty, Loading, Page } from "../ui/Page";
import { Table, type Column } from "../ui/Table";
import { words } from "../words/en";
import { VersionDetail } from "./VersionDetail";

const w = words.versions;

export type ModelVersion = Schemas["ModelVersion"];

const WIDE: Column<ModelVersion>[] = [
  { title: w.replicas, numeric: true, minor: true, cell: (row) => `${row.replica_ready_count ?? 0}/${row.replica_count ?? 0}` },
  { title: w.step, numeric: true, minor: true, cell: (row) => row.step ?? "–" },
  { title: w.faults, minor: true, cell: (row) => <span className="cut wide">{(row.faults ?? []).join("; ") || "–"}</span> },
];

export default function Versions() {
  const { name: chosen } = useParams({ strict: false }) as { name?: string };
  const navigate = useNavigate();
  const versions = useQuery({
    queryKey: ["versions"],
    queryFn: () => get<Schemas["ListModelVersionsResponse"]>("/v1/model-versions", { page_size: 500 }),
    refetchInterval: 10_000,
  });
  return (
    <Page title={chosen ?? w.title}>
      <Loading query={versions}>
        {({ versions: rows }) => {
          const promoted = rows.find((row) => row.aliases.includes("promoted"));
          return (
            <>
              {rows.length > 0 && !chosen && <p className="muted">{promoted ? w.now(promoted.name) : w.nowBase}</p>}
              <div className={chosen ? "split" : undefined}>
                {rows.length === 0 ? (
                  <Empty title={w.empty} hint={w.emptyHint} />
                ) : (
                  <Table
                    label={w.title}
                    rows={rows.toReversed()}
                    rowKey={(row) => row.name}
                    selected={chosen}
                    onSelect={(row) => void navigate({ to: "/versions/$name", params: { name: row.name } })}
                    columns={[
                      { title: w.version, cell: (row) => row.name },
                      { title: w.state, cell: (row) => <State version={row} /> },
                      { title: w.gate, cell: (row) => <Gate version={row} /> },
                      ...(chosen ? [] : WIDE),
                    ]}
                  />
                )}
                {chosen && <VersionDetail key={chosen} versionName={chosen} promoted={promoted} />}
              </div>
            </>
          );
        }}
      </Loading>
    </Page>
  );
}

export function State({ version }: { version: ModelVersion }) {
  if (version.aliases.includes("promoted")) return <Badge tone="good">{w.promoted}</Badge>;
  if (version.served) return <Badge tone="plain">{version.aliases.includes("candidate") ? w.candidate : w.served}</Badge>;
  return version.faults.length > 0 ? <Badge tone="bad">{w.notServed}</Badge> : <Badge tone="wait">{w.waits}</Badge>;
}

export function Gate({ version }: { version: ModelVersion }) {
  const verdict = name(version.gate_verdict, "GATE_VERDICT_");
  const shown = w.verdicts[verdict];
  return shown ? <Badge tone={shown.tone}>{shown.text}</Badge> : <span>–</span>;
}
