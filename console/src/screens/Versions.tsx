import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Button } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { useMay } from "../app/session";
import { name } from "../format";
import { Badge } from "../ui/parts";
import { Empty, Failure, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.versions;

export default function Versions() {
  const client = useQueryClient();
  const mayPromote = useMay("PromoteModelVersionRest");
  const versions = useQuery({
    queryKey: ["versions"],
    queryFn: () => get<Schemas["ListModelVersionsResponse"]>("/v1/model-versions", { page_size: 100 }),
    refetchInterval: 10_000,
  });
  const act = useMutation({
    mutationFn: ({ version, action }: { version: string; action: "promote" | "roll-back" }) =>
      write("POST", `/v1/model-versions/${encodeURIComponent(version)}/${action}`),
    onSettled: () => client.invalidateQueries({ queryKey: ["versions"] }),
  });
  return (
    <Page title={w.title}>
      {act.error && <Failure error={act.error} />}
      <Loading query={versions}>
        {({ versions: rows }) =>
          rows.length === 0 ? (
            <Empty title={w.empty} hint={w.emptyHint} />
          ) : (
            <Table
              label={w.title}
              rows={rows}
              rowKey={(row) => row.name!}
              columns={[
                { title: "Version", cell: (row) => row.name },
                { title: "Serves as", cell: (row) => (row.aliases ?? []).join(", ") || "–" },
                { title: w.gate, cell: (row) => <Gate version={row} /> },
                { title: w.replicas, numeric: true, cell: (row) => `${row.replica_ready_count ?? 0}/${row.replica_count ?? 0}` },
                {
                  title: w.promote,
                  cell: (row) =>
                    mayPromote && (
                      <span className="actions">
                        <Button isDisabled={act.isPending} onPress={() => act.mutate({ version: row.name!, action: "promote" })}>{w.promote}</Button>
                        <Button isDisabled={act.isPending} onPress={() => act.mutate({ version: row.name!, action: "roll-back" })}>{w.rollBack}</Button>
                      </span>
                    ),
                },
              ]}
            />
          )
        }
      </Loading>
    </Page>
  );
}

function Gate({ version }: { version: Schemas["ModelVersion"] }) {
  const verdict = version.gate_verdict ?? "";
  if (!verdict || verdict.endsWith("UNSPECIFIED")) return <span>–</span>;
  const good = /PASS|BETTER|PROMOTE/i.test(verdict);
  return (
    <span title={(version.gate_reasons ?? []).join("\n")}>
      <Badge tone={good ? "good" : "bad"}>{name(verdict, "GATE_VERDICT_")}</Badge>
    </span>
  );
}
