import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { Button, Form, Input, Label, TextField } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { useMay } from "../app/session";
import { Decisions } from "../ui/Decisions";
import { Badge, Choice, Code, Popup, Time } from "../ui/parts";
import { Empty, Failure, Loading, Page, Skeleton } from "../ui/Page";
import { Table, type Column } from "../ui/Table";
import { words } from "../words/en";
import { usePolicies } from "./PolicyEditor";
import { specText } from "./policySpec";

const w = words.policies;
const Diff = lazy(() => import("../ui/Diff"));

type Policy = Schemas["Policy"];

const WIDE: Column<Policy>[] = [
  { title: w.weights.outcome, numeric: true, minor: true, cell: (row) => row.spec!.preferences?.outcome ?? "–" },
  { title: w.weights.compute, numeric: true, minor: true, cell: (row) => row.spec!.preferences?.compute ?? "–" },
  { title: w.weights.latency, numeric: true, minor: true, cell: (row) => row.spec!.preferences?.latency ?? "–" },
  { title: w.columns.since, minor: true, cell: (row) => <Time value={row.create_time} /> },
];

export default function Policies() {
  const { name: chosen } = useParams({ strict: false }) as { name?: string };
  const navigate = useNavigate();
  const policies = usePolicies();
  const found = policies.data?.policies.find((each) => each.spec!.name === chosen);
  return (
    <Page title={chosen ?? w.title} actions={<Link to="/policy-editor" className="button primary">{w.create}</Link>}>
      <div className={chosen ? "split" : undefined}>
        <div>
          <Loading query={policies}>
            {({ policies: rows }) => (
              <Table
                label={w.title}
                rows={rows}
                rowKey={(row) => row.spec!.name}
                selected={chosen}
                onSelect={(row) => void navigate({ to: "/policies/$name", params: { name: row.spec!.name } })}
                columns={[
                  { title: w.columns.name, cell: (row) => row.spec!.name },
                  { title: w.columns.version, numeric: true, cell: (row) => row.version },
                  { title: w.columns.state, cell: (row) => (row.active ? <Badge tone="good">{w.active}</Badge> : "–") },
                  ...(chosen ? [] : WIDE),
                ]}
              />
            )}
          </Loading>
          <Defaults />
        </div>
        {found && <PolicyDetail key={chosen} newest={found} />}
        {chosen && policies.data && !found && <Empty title={w.unknown(chosen)} />}
      </div>
    </Page>
  );
}

/** Which policy was or becomes the default, and the way back to an earlier one. */
function Defaults() {
  const activations = useQuery({
    queryKey: ["policy-activations"],
    queryFn: () => get<Schemas["ListActivationsResponse"]>("/v1/policy-activations", { page_size: 50 }),
  });
  const mayActivate = useMay("ActivatePolicyRest");
  const activate = useActivation();
  return (
    <>
      <h2 className="spaced">{w.defaults}</h2>
      {activate.error && <Failure error={activate.error} />}
      <Loading query={activations}>
        {({ activations: rows }) => {
          const current = rows.findIndex((row) => Date.parse(row.effective_time!) <= Date.now());
          return rows.length === 0 ? (
            <p className="muted">{w.noDefaults}</p>
          ) : (
            <Table
              label={w.defaults}
              rows={rows.map((row, place) => ({ ...row, place }))}
              rowKey={(row) => String(row.place)}
              columns={[
                { title: w.title, cell: (row) => `${row.name}@${row.version}` },
                { title: w.columns.from, cell: (row) => <Time value={row.effective_time} /> },
                { title: w.columns.by, minor: true, cell: (row) => row.created_by },
                {
                  title: w.columns.state,
                  cell: (row) =>
                    row.place === current ? (
                      <Badge tone="good">{w.active}</Badge>
                    ) : row.place < current || current < 0 ? (
                      <Badge tone="wait">{w.scheduled}</Badge>
                    ) : (
                      mayActivate && (
                        <Button isDisabled={activate.isPending} onPress={() => activate.mutate({ name: row.name, version: row.version })}>
                          {w.back(`${row.name}@${row.version}`)}
                        </Button>
                      )
                    ),
                },
              ]}
            />
          );
        }}
      </Loading>
    </>
  );
}

interface Activation {
  name: string;
  version: number;
  effective_time?: string | undefined;
}

function useActivation(onDone?: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ name, ...body }: Activation) => write("POST", `/v1/policies/${encodeURIComponent(name)}/activate`, body),
    onSuccess: async () => {
      await Promise.all(["policies", "policy-activations", "explain"].map((key) => client.invalidateQueries({ queryKey: [key] })));
      onDone?.();
    },
  });
}

function PolicyDetail({ newest }: { newest: Policy }) {
  const name = newest.spec!.name;
  const [version, setVersion] = useState(newest.version);
  const [activating, setActivating] = useState(false);
  const mayActivate = useMay("ActivatePolicyRest");
  const shown = useVersion(name, version);
  const before = useVersion(name, version - 1);
  const explained = useQuery({
    queryKey: ["explain", name],
    queryFn: () => write<Schemas["ExplainToolsetResponse"]>("POST", "/v1/policies/explain", { policy: name }),
  });
  const numbers = Array.from({ length: newest.version }, (_, place) => place + 1);
  return (
    <aside className="detail" aria-label={name}>
      <h2>{name}</h2>
      <div className="actions">
        <Choice
          label={w.columns.version}
          value={String(version)}
          options={Object.fromEntries(numbers.map((each) => [each, w.versionOf(each, newest.version)]))}
          onChange={(value) => setVersion(Number(value))}
        />
        <Link to="/policy-editor" search={{ name }} className="button">{w.nextVersion(name)}</Link>
        {mayActivate && <Button onPress={() => setActivating(true)}>{w.makeDefault}</Button>}
      </div>
      {activating && <Activate name={name} version={version} onClose={() => setActivating(false)} />}
      <Loading query={shown}>{({ policy }) => <Code text={specText(policy!.spec)} label={name} />}</Loading>
      {version > 1 && shown.data && before.data && (
        <>
          <h3>{w.against(version - 1)}</h3>
          <Suspense fallback={<Skeleton rows={2} />}>
            <Diff label={w.against(version - 1)} before={specText(before.data.policy!.spec)} after={specText(shown.data.policy!.spec)} />
          </Suspense>
        </>
      )}
      <h3>{w.explain}</h3>
      <Loading query={explained}>
        {({ decisions, notices }) => (
          <>
            {notices.map((each) => <p key={each} className="notice">{each}</p>)}
            <Decisions label={w.explain} decisions={decisions} />
          </>
        )}
      </Loading>
    </aside>
  );
}

function useVersion(name: string, version: number) {
  return useQuery({
    queryKey: ["policy", name, version],
    queryFn: () => get<Schemas["GetPolicyResponse"]>(`/v1/policies/${encodeURIComponent(name)}`, { version }),
    enabled: version > 0,
  });
}

function Activate({ name, version, onClose }: { name: string; version: number; onClose: () => void }) {
  const [from, setFrom] = useState("");
  const activate = useActivation(onClose);
  return (
    <Popup title={`${w.makeDefault}: ${name}@${version}`} open onClose={onClose}>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          activate.mutate({ name, version, effective_time: from ? new Date(from).toISOString() : undefined });
        }}
      >
        <p>{w.activateHint}</p>
        <TextField value={from} onChange={setFrom} type="datetime-local">
          <Label>{w.effective}</Label>
          <Input />
        </TextField>
        {activate.error && <p className="error" role="alert">{activate.error.message}</p>}
        <div className="actions">
          <Button type="submit" className="primary" isDisabled={activate.isPending}>{from ? w.schedule : w.now}</Button>
          <Button onPress={onClose}>{words.cancel}</Button>
        </div>
      </Form>
    </Popup>
  );
}
