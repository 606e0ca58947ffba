import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Input, SearchField } from "react-aria-components";

import { get, type Schemas } from "../api/http";
import { useMay } from "../app/session";
import { money, name } from "../format";
import { Empty, Loading, Page } from "../ui/Page";
import { Table, type Column } from "../ui/Table";
import { words } from "../words/en";
import { latencyOf, shareOf, ToolDetail } from "./ToolDetail";

const w = words.tools;

export default function Tools() {
  const { name: chosen } = useParams({ strict: false }) as { name?: string };
  const search = useSearch({ strict: false }) as { q?: string };
  const navigate = useNavigate();
  const mayImport = useMay("RegisterToolsRest");
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
  const wide: Column<Schemas["Tool"]>[] = [
    { title: "p95", numeric: true, minor: true, cell: (row) => latencyOf(factsOf(row.spec!.name!)[0]) },
    { title: words.episode.cost, numeric: true, cell: (row) => money(factsOf(row.spec!.name!)[0]?.mean_cost) },
    { title: w.description, minor: true, cell: (row) => <span className="cut wide">{row.spec!.description}</span> },
  ];
  return (
    <Page title={chosen ?? w.title} actions={mayImport && <Link to="/tool-import" className="button primary">{w.import}</Link>}>
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
                  { title: w.name, cell: (row) => row.spec!.name },
                  { title: w.kind, cell: (row) => name(row.spec!.kind, "TOOL_KIND_") },
                  { title: w.success, numeric: true, cell: (row) => shareOf(factsOf(row.spec!.name!)[0]) },
                  ...(chosen ? [] : wide),
                ]}
              />
            )
          }
        </Loading>
        {chosen && <ToolDetail key={chosen} toolName={chosen} facts={factsOf(chosen)} />}
      </div>
    </Page>
  );
}
