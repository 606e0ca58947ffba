import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Input, SearchField } from "react-aria-components";

import { get, type Schemas } from "../api/http";
import { duration, milliseconds, money, name, percent, pretty } from "../format";
import { Badge, Code, Facts, Time } from "../ui/parts";
import { Empty, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.tools;

export default function Tools() {
  const { name: chosen } = useParams({ strict: false }) as { name?: string };
  const search = useSearch({ strict: false }) as { q?: string };
  const navigate = useNavigate();
  const tools = useQuery({
    queryKey: ["tools", search.q],
    queryFn: () => get<Schemas["ListToolsResponse"]>("/v1/tools", { page_size: 500, query: search.q }),
    placeholderData: (before) => before,
  });
  const facts = useQuery({
    queryKey: ["tool-facts"],
    queryFn: () => get<Schemas["ListToolFactsResponse"]>("/v1/tool-facts", { page_size: 500 }),
  });
  const factsOf = (tool: string) => facts.data?.facts.filter((each) => each.tool_name === tool) ?? [];
  return (
    <Page title={chosen ?? w.title}>
      <div className="filters">
        <SearchField
          aria-label={w.filter}
          defaultValue={search.q ?? ""}
          onChange={(q) => void navigate({ to: ".", search: q ? { q } : {}, replace: true })}
        >
          <Input placeholder={w.filter} />
        </SearchField>
      </div>
      <div className={chosen ? "split" : undefined}>
        <Loading query={tools}>
          {({ tools: rows }) =>
            rows.length === 0 ? (
              <Empty title={w.empty} hint={w.emptyHint} />
            ) : (
              <Table
                label={w.title}
                rows={rows}
                rowKey={(row) => row.spec!.name!}
                selected={chosen}
                onSelect={(row) => void navigate({ to: "/tools/$name", params: { name: row.spec!.name! }, search: search as Record<string, string> })}
                columns={[
                  { title: "Name", cell: (row) => row.spec!.name },
                  { title: "Kind", cell: (row) => name(row.spec!.kind, "TOOL_KIND_") },
                  { title: "Description", minor: true, cell: (row) => <span className="cut wide">{row.spec!.description}</span> },
                  { title: "Success", numeric: true, cell: (row) => shareOf(factsOf(row.spec!.name!)[0]) },
                  { title: "p95", numeric: true, minor: true, cell: (row) => latencyOf(factsOf(row.spec!.name!)[0]) },
                  { title: "Cost", numeric: true, cell: (row) => money(factsOf(row.spec!.name!)[0]?.mean_cost) },
                ]}
              />
            )
          }
        </Loading>
        {chosen && <ToolDetail toolName={chosen} facts={factsOf(chosen)} />}
      </div>
    </Page>
  );
}

type Facts_ = Schemas["ToolFacts"];

const shareOf = (facts: Facts_ | undefined) => (facts ? percent(facts.success_rate ?? 0) : "–");
const latencyOf = (facts: Facts_ | undefined) => (facts?.latency_p95 ? duration(milliseconds(facts.latency_p95)) : "–");

function ToolDetail({ toolName, facts }: { toolName: string; facts: Facts_[] }) {
  const tool = useQuery({
    queryKey: ["tool", toolName],
    queryFn: () => get<Schemas["GetToolResponse"]>(`/v1/tools/${encodeURIComponent(toolName)}`),
  });
  const versions = useQuery({
    queryKey: ["tool-versions", toolName],
    queryFn: () => get<Schemas["ListToolVersionsResponse"]>(`/v1/tools/${encodeURIComponent(toolName)}/versions`),
  });
  return (
    <aside className="detail" aria-label={toolName}>
      <Loading query={tool}>
        {({ tool: found }) => {
          const spec = found!.spec!;
          return (
            <>
              <h2>
                {spec.name} {found!.deprecate_time && <Badge tone="wait">{w.deprecated}</Badge>}
              </h2>
              <p>{spec.description}</p>
              <Facts
                facts={[
                  ["Kind", name(spec.kind, "TOOL_KIND_")],
                  ["Side effect", name(spec.side_effect, "SIDE_EFFECT_")],
                  ["Version", `${found!.version}${found!.shared ? ` · ${w.shared}` : ""}`],
                  ["Tags", (spec.tags ?? []).join(", ") || "–"],
                ]}
              />
              {(spec.notices ?? []).map((each) => <p key={each} className="notice">{each}</p>)}
              <h3>{w.facts}</h3>
              {facts.length === 0 ? (
                <p className="muted">{w.noFacts}</p>
              ) : (
                <Table
                  label={w.facts}
                  rows={facts}
                  rowKey={(row) => row.model_alias || "-"}
                  columns={[
                    { title: "Model", cell: (row) => row.model_alias || "–" },
                    { title: "Success", numeric: true, cell: shareOf },
                    { title: "p50", numeric: true, cell: (row) => duration(milliseconds(row.latency_p50)) },
                    { title: "p95", numeric: true, cell: latencyOf },
                    { title: "Cost", numeric: true, cell: (row) => money(row.mean_cost) },
                    { title: "Now", cell: (row) => (row.unavailable_for ? <Badge tone="bad">{row.unavailable_reason}</Badge> : <Badge tone="good">ok</Badge>) },
                  ]}
                />
              )}
              <h3>{w.schema}</h3>
              <Code text={pretty(spec.parameters_json_schema ?? "")} label={w.schema} />
            </>
          );
        }}
      </Loading>
      <h3>{w.versions}</h3>
      <Loading query={versions}>
        {(page) => (
          <Table
            label={w.versions}
            rows={page.tools}
            rowKey={(row) => String(row.version)}
            columns={[
              { title: "Version", cell: (row) => row.version },
              { title: "By", cell: (row) => row.created_by || "–" },
              { title: "When", cell: (row) => <Time value={row.create_time} /> },
            ]}
          />
        )}
      </Loading>
    </aside>
  );
}
