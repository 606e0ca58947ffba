import { useMutation, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Button, Form, Input, Label, SearchField, Text, TextField } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { Verdict } from "../ui/Decisions";
import { Choice, Time } from "../ui/parts";
import { Failure, Loading, Page, Skeleton } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";
import { usePolicies } from "./PolicyEditor";

const w = words.access;
const COLUMNS_MAX = 12;
const ROWS_MAX = 100;
// No role has this name, so nothing can be bound to it.
const ANYONE = "role:anyone";

type Decision = Schemas["ToolDecision"];
type Binding = Schemas["PolicyBinding"];

export default function Access() {
  const [policy, setPolicy] = useState("");
  const [checked, setChecked] = useState<string[]>([]);
  const policies = usePolicies();
  const bindings = useQuery({
    queryKey: ["policy-bindings"],
    queryFn: () => get<Schemas["ListPolicyBindingsResponse"]>("/v1/policy-bindings", { page_size: 500 }),
  });
  const names = (policies.data?.policies ?? []).map((each) => each.spec!.name);
  return (
    <Page title={w.title}>
      <p className="muted wide">{w.hint}</p>
      <Loading query={bindings}>
        {({ bindings: rows }) => {
          const bound = [...new Set(rows.map((each) => each.principal))];
          return (
            <>
              <div className="filters">
                <label className="field">
                  {w.policy}
                  <Choice label={w.policy} value={policy} options={Object.fromEntries([["", w.byDefault], ...names.map((each) => [each, each])])} onChange={setPolicy} />
                </label>
                <Check onCheck={(caller) => setChecked((before) => [caller, ...before.filter((each) => each !== caller)])} />
              </div>
              <Matrix policy={policy} callers={[...checked, ANYONE, ...bound].slice(0, COLUMNS_MAX)} />
              <Bindings rows={rows} policies={names} />
            </>
          );
        }}
      </Loading>
    </Page>
  );
}

function Check({ onCheck }: { onCheck: (caller: string) => void }) {
  const [text, setText] = useState("");
  return (
    <Form
      className="inline"
      onSubmit={(event) => {
        event.preventDefault();
        onCheck(text.trim().split(/[\s,]+/).join(" "));
        setText("");
      }}
    >
      <TextField value={text} onChange={setText}>
        <Label>{w.check}</Label>
        <Input spellCheck={false} />
        <Text slot="description" className="muted small">{w.checkHint}</Text>
      </TextField>
      <Button type="submit" isDisabled={!text.trim()}>{w.add}</Button>
    </Form>
  );
}

function Matrix({ policy, callers }: { policy: string; callers: string[] }) {
  const [filter, setFilter] = useState("");
  const [chosen, setChosen] = useState<{ tool: string; caller: string } | null>(null);
  const replies = useQueries({
    queries: callers.map((caller) => ({
      queryKey: ["explain", policy, caller],
      queryFn: () =>
        write<Schemas["ExplainToolsetResponse"]>("POST", "/v1/policies/explain", { policy, principals: caller.split(" ") }),
      retry: false,
    })),
  });
  const decisions = useMemo(
    () => replies.map((reply) => new Map((reply.data?.decisions ?? []).map((each) => [each.name, each]))),
    [replies],
  );
  const tools = [...new Set(decisions.flatMap((each) => [...each.keys()]))].sort().filter((each) => each.includes(filter));
  const faults = replies.filter((reply) => reply.error);
  const of = (tool: string, caller: string): Decision | undefined => decisions[callers.indexOf(caller)]?.get(tool);
  const shown = chosen && of(chosen.tool, chosen.caller);
  if (replies.every((reply) => reply.isPending)) return <Skeleton />;
  return (
    <>
      {faults.map((reply, place) => <Failure key={place} error={reply.error} />)}
      <div className="filters">
        <SearchField aria-label={w.filter} value={filter} onChange={setFilter}>
          <Input placeholder={w.filter} />
        </SearchField>
      </div>
      <p className="notice matrix-why" role="status">
        {shown ? (
          <>
            <strong>{w.why(chosen.tool, named(chosen.caller))}</strong>: <Verdict decision={shown} />, {shown.reason}
          </>
        ) : (
          w.choose
        )}
      </p>
      <Table
        label={w.title}
        rows={tools.slice(0, ROWS_MAX)}
        rowKey={(tool) => tool}
        columns={[
          { title: words.tools.title, cell: (tool) => tool },
          ...callers.map((caller) => ({
            title: named(caller),
            cell: (tool: string) => {
              const decision = of(tool, caller);
              return decision ? (
                <button
                  type="button"
                  className="cell"
                  aria-pressed={chosen?.tool === tool && chosen.caller === caller}
                  title={decision.reason}
                  onClick={() => setChosen({ tool, caller })}
                >
                  <Verdict decision={decision} />
                </button>
              ) : (
                "–"
              );
            },
          })),
        ]}
      />
      {tools.length > ROWS_MAX && <p className="muted">{w.more(tools.length - ROWS_MAX)}</p>}
    </>
  );
}

const named = (caller: string) => (caller === ANYONE ? w.anyone : caller);

function Bindings({ rows, policies }: { rows: Binding[]; policies: string[] }) {
  const client = useQueryClient();
  const [principal, setPrincipal] = useState("");
  const [policy, setPolicy] = useState("");
  const chosen = policy || policies[0] || "";
  const refresh = () => Promise.all(["policy-bindings", "explain"].map((key) => client.invalidateQueries({ queryKey: [key] })));
  const change = useMutation({
    mutationFn: ({ name, action, who }: { name: string; action: "bind" | "unbind"; who: string }) =>
      write("POST", `/v1/policies/${encodeURIComponent(name)}/${action}`, { principal: who }),
    onSuccess: async () => {
      setPrincipal("");
      await refresh();
    },
  });
  return (
    <section aria-label={w.bindings}>
      <h2 className="spaced">{w.bindings}</h2>
      {rows.length === 0 ? (
        <p className="muted">{w.noBindings}</p>
      ) : (
        <Table
          label={w.bindings}
          rows={rows}
          rowKey={(row) => `${row.principal} ${row.policy}`}
          columns={[
            { title: w.principal, cell: (row) => row.principal },
            { title: w.policy, cell: (row) => row.policy },
            { title: words.policies.columns.since, minor: true, cell: (row) => <Time value={row.create_time} /> },
            {
              title: words.remove,
              cell: (row) => (
                <Button
                  aria-label={`${words.remove} ${row.principal} ${row.policy}`}
                  isDisabled={change.isPending}
                  onPress={() => change.mutate({ name: row.policy, action: "unbind", who: row.principal })}
                >
                  {words.remove}
                </Button>
              ),
            },
          ]}
        />
      )}
      <Form
        className="inline spaced"
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate({ name: chosen, action: "bind", who: principal.trim() });
        }}
      >
        <TextField value={principal} onChange={setPrincipal}>
          <Label>{w.principal}</Label>
          <Input spellCheck={false} />
          <Text slot="description" className="muted small">{w.principalHint}</Text>
        </TextField>
        <label className="field">
          {w.policy}
          <Choice label={words.policies.title} value={chosen} options={Object.fromEntries(policies.map((each) => [each, each]))} onChange={setPolicy} />
        </label>
        <Button type="submit" isDisabled={!principal.trim() || !chosen || change.isPending}>{w.bind}</Button>
      </Form>
      {change.error && <p className="error" role="alert">{change.error.message}</p>}
    </section>
  );
}
