import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { Button, Tab, TabList, TabPanel, Tabs } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { useMay } from "../app/session";
import { count, duration, milliseconds, money, name, percent, pretty, withoutUnset } from "../format";
import { Badge, Choice, Code, Cost, Facts, Time } from "../ui/parts";
import { Failure, Loading, Skeleton } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";
import { Histogram } from "./Histogram";
import { TryTool } from "./TryTool";

const w = words.tools;
const DAY_S = 86_400;
const DAYS = 30;
const Diff = lazy(() => import("../ui/Diff"));

type Measured = Schemas["ToolFacts"];
type Tool = Schemas["Tool"];

export const shareOf = (facts: Measured | undefined) => (facts ? percent(facts.success_rate ?? 0) : "–");
export const latencyOf = (facts: Measured | undefined) => (facts?.latency_p95 ? duration(milliseconds(facts.latency_p95)) : "–");

export function ToolDetail({ toolName, facts }: { toolName: string; facts: Measured[] }) {
  const tool = useQuery({
    queryKey: ["tool", toolName],
    queryFn: () => get<Schemas["GetToolResponse"]>(`/v1/tools/${encodeURIComponent(toolName)}`),
  });
  return (
    <aside className="detail" aria-label={toolName}>
      <Loading query={tool}>
        {({ tool: found }) => (
          <Tabs className="tabs">
            <h2>
              {found!.spec!.name} {found!.deprecate_time && <Badge tone="wait">{w.deprecated}</Badge>}
            </h2>
            <TabList aria-label={toolName}>
              <Tab id="about">{w.about}</Tab>
              <Tab id="try">{w.try}</Tab>
              <Tab id="versions">{w.versions}</Tab>
              <Tab id="use">{w.use}</Tab>
            </TabList>
            <TabPanel id="about"><About tool={found!} facts={facts} /></TabPanel>
            <TabPanel id="try"><TryTool spec={found!.spec!} /></TabPanel>
            <TabPanel id="versions"><Versions toolName={toolName} /></TabPanel>
            <TabPanel id="use"><Use toolName={toolName} /></TabPanel>
          </Tabs>
        )}
      </Loading>
    </aside>
  );
}

function About({ tool, facts }: { tool: Tool; facts: Measured[] }) {
  const spec = tool.spec!;
  return (
    <>
      <p>{spec.description}</p>
      <Facts
        facts={[
          [w.kind, name(spec.kind, "TOOL_KIND_")],
          [w.sideEffect, name(spec.side_effect, "SIDE_EFFECT_")],
          [w.version, `${tool.version}${tool.shared ? ` · ${w.shared}` : ""}`],
          [w.tags, (spec.tags ?? []).join(", ") || "–"],
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
            { title: words.episodes.model, cell: (row) => row.model_alias || "–" },
            { title: w.success, numeric: true, cell: shareOf },
            { title: "p50", numeric: true, cell: (row) => duration(milliseconds(row.latency_p50)) },
            { title: "p95", numeric: true, cell: latencyOf },
            { title: words.episode.cost, numeric: true, cell: (row) => money(row.mean_cost) },
            { title: w.now, cell: (row) => (row.unavailable_for ? <Badge tone="bad">{row.unavailable_reason}</Badge> : <Badge tone="good">ok</Badge>) },
          ]}
        />
      )}
      <h3>{w.schema}</h3>
      <Code text={pretty(spec.parameters_json_schema ?? "")} label={w.schema} />
    </>
  );
}

/** The spec as text; its schema is laid out, so that a change of one line is one line. */
function textOf(tool: Tool | undefined): string {
  const { parameters_json_schema: schema, ...rest } = tool?.spec ?? ({} as Schemas["ToolSpec"]);
  return `${JSON.stringify(withoutUnset(rest), null, 2)}\n\n${w.schema}:\n${pretty(schema ?? "")}\n`;
}

function Versions({ toolName }: { toolName: string }) {
  const client = useQueryClient();
  const mayChange = useMay("DeprecateToolRest");
  const path = `/v1/tools/${encodeURIComponent(toolName)}`;
  const versions = useQuery({
    queryKey: ["tool-versions", toolName],
    queryFn: () => get<Schemas["ListToolVersionsResponse"]>(`${path}/versions`, { page_size: 100 }),
  });
  const deprecate = useMutation({
    mutationFn: (version: number) => write("POST", `${path}/deprecate`, { version }),
    onSuccess: () => Promise.all(["tool-versions", "tools", "tool"].map((key) => client.invalidateQueries({ queryKey: [key] }))),
  });
  return (
    <>
      {deprecate.error && <Failure error={deprecate.error} />}
      <Loading query={versions}>
        {({ tools }) => (
          <>
            <Table
              label={w.versions}
              rows={tools}
              rowKey={(row) => String(row.version)}
              columns={[
                { title: w.version, cell: (row) => <>{row.version} {row.deprecate_time && <Badge tone="wait">{w.deprecated}</Badge>}</> },
                { title: words.policies.columns.by, minor: true, cell: (row) => row.created_by || "–" },
                { title: w.when, cell: (row) => <Time value={row.create_time} /> },
                {
                  title: w.deprecate,
                  cell: (row) =>
                    mayChange && !row.shared && !row.deprecate_time && (
                      <Button aria-label={`${w.deprecate} ${row.version}`} isDisabled={deprecate.isPending} onPress={() => deprecate.mutate(row.version!)}>
                        {w.deprecate}
                      </Button>
                    ),
                },
              ]}
            />
            {tools.length > 1 ? <Compared tools={tools} /> : <p className="muted">{w.oneVersion}</p>}
          </>
        )}
      </Loading>
    </>
  );
}

function Compared({ tools }: { tools: Tool[] }) {
  const [pair, setPair] = useState({ before: tools[1]!.version!, after: tools[0]!.version! });
  const options = Object.fromEntries(tools.map((each) => [each.version!, `${w.version} ${each.version}`]));
  const of = (version: number) => textOf(tools.find((each) => each.version === version));
  return (
    <>
      <h3>{w.compare}</h3>
      <div className="actions">
        <Choice label={w.before} value={String(pair.before)} options={options} onChange={(value) => setPair({ ...pair, before: Number(value) })} />
        <span aria-hidden="true">→</span>
        <Choice label={w.after} value={String(pair.after)} options={options} onChange={(value) => setPair({ ...pair, after: Number(value) })} />
      </div>
      <Suspense fallback={<Skeleton rows={2} />}>
        <Diff label={w.compare} before={of(pair.before)} after={of(pair.after)} />
      </Suspense>
    </>
  );
}

/** The episodes that called the tool, day by day, and what failed in them. */
function Use({ toolName }: { toolName: string }) {
  const start = new Date(Math.floor(Date.now() / (DAY_S * 1000)) * DAY_S * 1000 - (DAYS - 1) * DAY_S * 1000).toISOString();
  const summary = useQuery({
    queryKey: ["tool-use", toolName, start],
    queryFn: () =>
      get<Schemas["SummarizeEpisodesResponse"]>("/v1/episode-summary", {
        "filter.tool_names": toolName, "filter.start_time": start, bucket: `${DAY_S}s`,
      }),
  });
  return (
    <Loading query={summary}>
      {(found) => {
        if (!found.count) return <p className="muted">{w.unused(DAYS)}</p>;
        const days = daysOf(found.series);
        const failures = found.facets.filter((each) => each.field === "failure_kinds");
        return (
          <>
            <p>
              <Link to="/episodes" search={{ tool_names: toolName, range: "month" }}>{words.episodes.counted(found.count)}</Link>
            </p>
            <Histogram counts={found} />
            <Table
              label={w.use}
              rows={days}
              rowKey={(row) => row.day}
              columns={[
                { title: words.spend.day, cell: (row) => row.day },
                { title: words.nav.episodes, numeric: true, cell: (row) => count(row.episodes) },
                { title: w.answered, numeric: true, cell: (row) => percent(row.answered / row.episodes) },
                { title: w.meanCost, numeric: true, cell: (row) => <Cost value={row.mean} /> },
              ]}
            />
            <h3>{w.failures}</h3>
            {failures.length === 0 ? (
              <p className="muted">{w.noFailures}</p>
            ) : (
              <Facts facts={failures.map((each) => [name(each.value, "FAILURE_KIND_"), count(each.count)] as const)} />
            )}
          </>
        );
      }}
    </Loading>
  );
}

interface Day {
  day: string;
  episodes: number;
  answered: number;
  costs: Schemas["Money"][];
}

function daysOf(series: Schemas["EpisodeBucket"][]) {
  const days = new Map<string, Day>();
  for (const each of series) {
    const day = each.start_time!.slice(0, 10);
    const found = days.get(day) ?? { day, episodes: 0, answered: 0, costs: [] };
    found.episodes += each.count;
    if (each.stop_reason === "STOP_REASON_ANSWERED") found.answered += each.count;
    if (each.cost) found.costs.push(each.cost);
    days.set(day, found);
  }
  return [...days.values()].reverse().map((each) => ({ ...each, mean: meanOf(each) }));
}

/** The mean cost, for display alone; undefined where nothing was charged, or in two currencies. */
function meanOf({ costs, episodes }: Day): Schemas["Money"] | undefined {
  const [currency_code, ...others] = new Set(costs.map((each) => each.currency_code));
  if (!currency_code || others.length) return undefined;
  return { amount: String(costs.reduce((sum, each) => sum + Number(each.amount), 0) / episodes), currency_code };
}
