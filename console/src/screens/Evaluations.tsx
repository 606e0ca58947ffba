import { useQuery } from "@tanstack/react-query";

import { get, type Schemas } from "../api/http";
import { name } from "../format";
import { Badge, Time } from "../ui/parts";
import { Empty, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.evaluations;

export default function Evaluations() {
  const runs = useQuery({
    queryKey: ["evaluations"],
    queryFn: () => get<Schemas["ListEvaluationsResponse"]>("/v1/evaluations", { page_size: 100 }),
    refetchInterval: 10_000,
  });
  return (
    <Page title={w.title}>
      <Loading query={runs}>
        {({ evaluations }) =>
          evaluations.length === 0 ? (
            <Empty title={w.empty} hint={w.emptyHint} />
          ) : (
            <Table
              label={w.title}
              rows={evaluations}
              rowKey={(row) => row.id!}
              columns={[
                { title: "Suite", cell: (row) => row.suite },
                { title: "Arms", cell: (row) => row.arms.map((arm) => arm.name).join(", ") },
                { title: "Repeats", numeric: true, cell: (row) => row.repeats },
                { title: "State", cell: (row) => <Badge tone={row.end_time ? "good" : "plain"}>{name(row.state, "EVALUATION_STATE_")}</Badge> },
                { title: "Started", cell: (row) => <Time value={row.create_time} /> },
                { title: "Run", minor: true, cell: (row) => <code className="cut">{row.id}</code> },
              ]}
            />
          )
        }
      </Loading>
    </Page>
  );
}
