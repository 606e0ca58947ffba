import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Button } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { useMay } from "../app/session";
import { count, day, duration, milliseconds } from "../format";
import { Badge, Time } from "../ui/parts";
import { Failure, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.health;
const EVERY_MS = 10_000;
const TONES = { serving: "good", degraded: "wait", not_serving: "wait", unreachable: "bad" } as const;

/** Whether all parts of the platform answer; of what is wrong, the cause and what to do. */
export default function Health() {
  const status = useQuery({
    queryKey: ["platform-status"],
    queryFn: () => get<Schemas["PlatformStatus"]>("/v1/platform/status"),
    refetchInterval: EVERY_MS,
  });
  return (
    <Page title={w.title}>
      <Loading query={status}>
        {({ services }) => {
          const unwell = services.filter((each) => each.state !== "serving").length;
          return (
            <>
              <p role="status"><Badge tone={unwell ? "bad" : "good"}>{unwell ? w.unwell(unwell) : w.well}</Badge></p>
              <Table
                label={w.services}
                rows={services}
                rowKey={(row) => row.name}
                columns={[
                  { title: w.service, cell: (row) => row.name },
                  { title: w.state, cell: (row) => <Badge tone={TONES[row.state]}>{w.states[row.state]}</Badge> },
                  { title: w.answered, numeric: true, minor: true, cell: (row) => duration(row.latency_ms) },
                  ...(unwell
                    ? [
                        { title: w.meaning, cell: (row: Schemas["ServiceHealth"]) => (row.state === "serving" ? "" : w.away[row.name] ?? "") },
                        { title: w.fix, cell: (row: Schemas["ServiceHealth"]) => w.fixes[row.state] ?? "" },
                      ]
                    : []),
                ]}
              />
            </>
          );
        }}
      </Loading>
      <Versions />
      <Resting />
      <Letters />
      <Signed />
      <p className="muted spaced">{w.rest}</p>
    </Page>
  );
}

function Versions() {
  const versions = useQuery({
    queryKey: ["versions"],
    queryFn: () => get<Schemas["ListModelVersionsResponse"]>("/v1/model-versions", { page_size: 500 }),
    refetchInterval: EVERY_MS,
  });
  return (
    <section>
      <h2 className="spaced">{w.versions}</h2>
      <Loading query={versions}>
        {({ versions: all }) => {
          const rows = all.filter((each) => !each.served && each.faults.length > 0 && !each.faults.includes("retired"));
          return rows.length === 0 ? (
            <p className="muted">{w.noVersions}</p>
          ) : (
            <>
              <p className="muted">{w.versionsHint}</p>
              <Table
                label={w.versions}
                rows={rows}
                rowKey={(row) => row.name}
                columns={[
                  { title: w.version, cell: (row) => <Link to="/versions/$name" params={{ name: row.name }}>{row.name}</Link> },
                  { title: w.cause, cell: (row) => row.faults.join("; ") },
                ]}
              />
            </>
          );
        }}
      </Loading>
    </section>
  );
}

function Resting() {
  const facts = useQuery({
    queryKey: ["tool-facts"],
    queryFn: () => get<Schemas["ListToolFactsResponse"]>("/v1/tool-facts", { page_size: 500 }),
    refetchInterval: EVERY_MS,
  });
  return (
    <section>
      <h2 className="spaced">{w.tools}</h2>
      <Loading query={facts}>
        {({ facts: all }) => {
          const rows = all.filter((each) => milliseconds(each.unavailable_for) > 0);
          return rows.length === 0 ? (
            <p className="muted">{w.noTools}</p>
          ) : (
            <>
              <p className="muted">{w.toolsHint}</p>
              <Table
                label={w.tools}
                rows={rows}
                rowKey={(row) => `${row.tool_name}/${row.model_alias}`}
                columns={[
                  { title: w.tool, cell: (row) => <Link to="/tools/$name" params={{ name: row.tool_name! }}>{row.tool_name}</Link> },
                  { title: w.model, cell: (row) => row.model_alias || "–" },
                  { title: w.until, numeric: true, cell: (row) => duration(milliseconds(row.unavailable_for)) },
                  { title: w.cause, cell: (row) => row.unavailable_reason },
                ]}
              />
            </>
          );
        }}
      </Loading>
    </section>
  );
}

function Letters() {
  const client = useQueryClient();
  const mayRedrive = useMay("RedriveDeadLettersRest");
  const letters = useQuery({
    queryKey: ["dead-letters"],
    queryFn: () => get<Schemas["ListDeadLettersResponse"]>("/v1/dead-letters", { page_size: 50, all_tenants: true }),
    refetchInterval: EVERY_MS,
  });
  const redrive = useMutation({
    mutationFn: () => write<Schemas["RedriveDeadLettersResponse"]>("POST", "/v1/dead-letters/redrive", { all_tenants: true }),
    onSettled: () => client.invalidateQueries({ queryKey: ["dead-letters"] }),
  });
  return (
    <section>
      <h2 className="spaced">{w.letters}</h2>
      {redrive.error && <Failure error={redrive.error} />}
      {redrive.data && <p role="status">{w.redriven(count(redrive.data.count))}</p>}
      <Loading query={letters}>
        {({ dead_letters: rows }) =>
          rows.length === 0 ? (
            <p className="muted">{w.noLetters}</p>
          ) : (
            <>
              <p className="muted">{w.lettersHint}</p>
              <Table
                label={w.letters}
                rows={rows}
                rowKey={(row) => row.record_id!}
                columns={[
                  { title: w.when, cell: (row) => <Time value={row.create_time} /> },
                  { title: w.tenant, cell: (row) => row.tenant },
                  { title: w.kind, minor: true, cell: (row) => row.kind },
                  { title: w.reason, cell: (row) => row.reason },
                  { title: w.record, minor: true, cell: (row) => <code>{row.record_id}</code> },
                ]}
              />
              {mayRedrive && <div className="actions"><Button isDisabled={redrive.isPending} onPress={() => redrive.mutate()}>{w.redrive}</Button></div>}
            </>
          )
        }
      </Loading>
    </section>
  );
}

/** Until when the chain of the ledger is signed, and the page that checks it. */
function Signed() {
  const anchors = useQuery({
    queryKey: ["anchors"],
    queryFn: () => get<Schemas["ListAnchorsResponse"]>("/v1/audit/anchors", { page_size: 1000 }),
  });
  return (
    <section>
      <h2 className="spaced">{w.ledger}</h2>
      <Loading query={anchors}>
        {({ anchors: found }) => <p>{found.length > 0 ? `${w.anchored} ${day(found.at(-1)!.day)}. ` : `${w.noAnchor} `}<Link to="/ledger">{w.verify}</Link></p>}
      </Loading>
    </section>
  );
}
