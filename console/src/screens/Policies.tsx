import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";

import { get, write, type Schemas } from "../api/http";
import { Badge, Code, Time } from "../ui/parts";
import { Empty, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.policies;

export default function Policies() {
  const { name: chosen } = useParams({ strict: false }) as { name?: string };
  const navigate = useNavigate();
  const policies = useQuery({
    queryKey: ["policies"],
    queryFn: () => get<Schemas["ListPoliciesResponse"]>("/v1/policies", { page_size: 500 }),
  });
  return (
    <Page title={chosen ?? w.title}>
      <div className={chosen ? "split" : undefined}>
        <Loading query={policies}>
          {({ policies: rows }) =>
            rows.length === 0 ? (
              <Empty title={w.empty} hint={w.emptyHint} />
            ) : (
              <Table
                label={w.title}
                rows={rows}
                rowKey={(row) => row.spec!.name!}
                selected={chosen}
                onSelect={(row) => void navigate({ to: "/policies/$name", params: { name: row.spec!.name! } })}
                columns={[
                  { title: "Name", cell: (row) => row.spec!.name },
                  { title: "Version", numeric: true, cell: (row) => row.version },
                  { title: "State", cell: (row) => (row.active ? <Badge tone="good">{w.active}</Badge> : "–") },
                  { title: "Outcome", numeric: true, minor: true, cell: (row) => row.spec!.preferences?.outcome ?? "–" },
                  { title: "Cost", numeric: true, minor: true, cell: (row) => row.spec!.preferences?.compute ?? "–" },
                  { title: "Latency", numeric: true, minor: true, cell: (row) => row.spec!.preferences?.latency ?? "–" },
                  { title: "Since", minor: true, cell: (row) => <Time value={row.create_time} /> },
                ]}
              />
            )
          }
        </Loading>
        {chosen && <PolicyDetail policy={chosen} spec={policies.data?.policies.find((each) => each.spec!.name === chosen)?.spec} />}
      </div>
    </Page>
  );
}

function PolicyDetail({ policy, spec }: { policy: string; spec: Schemas["PolicySpec"] | undefined }) {
  const explained = useQuery({
    queryKey: ["explain", policy],
    queryFn: () => write<Schemas["ExplainToolsetResponse"]>("POST", "/v1/policies/explain", { policy }),
  });
  return (
    <aside className="detail" aria-label={policy}>
      <h2>{policy}</h2>
      {spec && <Code text={JSON.stringify(spec, null, 2)} label={policy} />}
      <h3>{w.explain}</h3>
      <Loading query={explained}>
        {({ decisions, notices }) => (
          <>
            {notices.map((each) => <p key={each} className="notice">{each}</p>)}
            <Table
              label={w.explain}
              rows={decisions}
              rowKey={(row) => row.name!}
              columns={[
                { title: words.tools.title, cell: (row) => row.name },
                { title: w.allowed, cell: (row) => <Badge tone={row.allowed ? "good" : "bad"}>{row.allowed ? w.allowed : w.denied}</Badge> },
                { title: w.rule, cell: (row) => row.reason },
              ]}
            />
          </>
        )}
      </Loading>
    </aside>
  );
}
