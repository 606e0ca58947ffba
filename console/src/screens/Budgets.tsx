import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useState, type ReactNode } from "react";
import { Button, Form, Input, Label, TextField } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { uuid7 } from "../api/ids";
import { usePolling } from "../app/live";
import { useMay } from "../app/session";
import { money, name } from "../format";
import { Badge, Facts, Meter, Popup, Time } from "../ui/parts";
import { Empty, Loading, Page, Skeleton } from "../ui/Page";
import { words } from "../words/en";

const w = words.budgets;

const BudgetWindows = lazy(() => import("./BudgetWindows"));

type Status = Schemas["BudgetStatus"];

export default function Budgets() {
  const budgets = useQuery({
    queryKey: ["budgets"],
    queryFn: () => get<Schemas["ListBudgetsResponse"]>("/v1/budgets", { page_size: 200 }),
    // Forecasts change with time alone.
    refetchInterval: usePolling() || 30_000,
  });
  return (
    <Page title={w.title}>
      <Loading query={budgets}>
        {({ statuses }) =>
          statuses.length === 0 ? (
            <Empty title={w.empty} hint={w.emptyHint} />
          ) : (
            <ul className="cards">
              {statuses.map((status) => (
                <BudgetCard key={status.budget!.id} status={status} />
              ))}
            </ul>
          )
        }
      </Loading>
    </Page>
  );
}

function BudgetCard({ status }: { status: Status }) {
  const budget = status.budget!;
  const limit = Number(status.limit?.amount ?? 0);
  const raised = budget.raised;
  const [posted, held] = [Number(status.posted?.amount ?? 0), Number(status.held?.amount ?? 0)];
  const [changing, setChanging] = useState(false);
  const [raising, setRaising] = useState(false);
  const [past, setPast] = useState(false);
  const mayChange = useMay("UpdateBudgetRest") && !budget.close_time;
  const mayRaise = useMay("RaiseBudgetRest") && !budget.close_time;
  return (
    <li className="card">
      <h2>
        {budget.id}{" "}
        <span className="muted small">
          {name(budget.scope, "BUDGET_SCOPE_")} {budget.scope_id} · {name(budget.window, "BUDGET_WINDOW_")}
          {budget.close_time && " · closed"}
        </span>
      </h2>
      <Meter label={budget.id!} posted={limit ? posted / limit : 0} held={limit ? held / limit : 0} forecast={limit ? Number(status.forecast?.amount ?? 0) / limit : 0} />
      <Facts
        facts={[
          [w.posted, money(status.posted)],
          [w.held, money(status.held)],
          [w.left, money(status.remaining)],
          [w.limit, money(status.limit)],
        ]}
      />
      {raised && (
        <p className="small">
          {w.raisedBy(money(raised.amount))} <Time value={raised.end_time} /> ({raised.raised_by}: {raised.reason})
        </p>
      )}
      {!budget.close_time && <Pace status={status} />}
      <div className="actions">
        {mayRaise && <Button onPress={() => setRaising(true)}>{w.raise}</Button>}
        {mayChange && <Button onPress={() => setChanging(true)}>{w.change}</Button>}
        <Button aria-expanded={past} onPress={() => setPast(!past)}>{w.windows}</Button>
      </div>
      {past && (
        <Suspense fallback={<Skeleton rows={2} />}>
          <BudgetWindows id={budget.id!} />
        </Suspense>
      )}
      {raising && <Raise budget={budget} onClose={() => setRaising(false)} />}
      {changing && <ChangeLimit budget={budget} onClose={() => setChanging(false)} />}
    </li>
  );
}

/** How fast the money goes, against an even use of the window up to the server's forecast. */
function Pace({ status }: { status: Status }) {
  const limit = Number(status.limit?.amount ?? 0);
  if (!status.forecast || !limit) {
    return status.window_end ? <p className="small muted">{w.ends} <Time value={status.window_end} />. {w.tooEarly}</p> : null;
  }
  const pace = Number(status.forecast.amount) / limit;
  return (
    <p className="small">
      {w.forecast(money(status.forecast))} <Time value={status.window_end} />, {w.pace(pace.toFixed(1))}.
      {status.exhaust_time && (
        <>
          {" "}
          <Badge tone="wait">
            {w.exhausted} <Time value={status.exhaust_time} />
          </Badge>
        </>
      )}
    </p>
  );
}

type Dialog = { budget: Schemas["Budget"]; onClose: () => void };

function ChangeLimit({ budget, onClose }: Dialog) {
  const [amount, setAmount] = useState(budget.hard_limit?.amount ?? "");
  const send = () =>
    write("PATCH", `/v1/budgets/${encodeURIComponent(budget.id!)}`, {
      hard_limit: { ...budget.hard_limit, amount },
      version: budget.version,
      update_mask: "hardLimit",
    });
  return (
    <Sheet title={`${w.change}: ${budget.id}`} send={send} onClose={onClose}>
      <TextField value={amount} onChange={setAmount} isRequired inputMode="decimal" autoFocus>
        <Label>{w.newLimit}</Label>
        <Input />
      </TextField>
    </Sheet>
  );
}

function Raise({ budget, onClose }: Dialog) {
  // One dialog is one raise, however often it is sent.
  const [raise_id] = useState(uuid7);
  const [amount, setAmount] = useState("");
  const [until, setUntil] = useState("");
  const [reason, setReason] = useState("");
  const send = () =>
    write("POST", `/v1/budgets/${encodeURIComponent(budget.id!)}/raise`, {
      raise_id,
      amount: { ...budget.hard_limit, amount },
      end_time: until ? new Date(until).toISOString() : undefined,
      reason,
    });
  return (
    <Sheet title={`${w.raise}: ${budget.id}`} send={send} onClose={onClose}>
      <TextField value={amount} onChange={setAmount} isRequired inputMode="decimal" autoFocus>
        <Label>{w.added(budget.hard_limit?.currency_code ?? "")}</Label>
        <Input />
      </TextField>
      <TextField value={until} onChange={setUntil} type="datetime-local">
        <Label>{w.raiseUntil}</Label>
        <Input />
      </TextField>
      <TextField value={reason} onChange={setReason} isRequired maxLength={500}>
        <Label>{w.reason}</Label>
        <Input />
      </TextField>
    </Sheet>
  );
}

function Sheet({ title, send, onClose, children }: { title: string; send: () => Promise<unknown>; onClose: () => void; children: ReactNode }) {
  const client = useQueryClient();
  const save = useMutation({
    mutationFn: send,
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["budgets"] });
      onClose();
    },
  });
  return (
    <Popup title={title} open onClose={onClose}>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        {children}
        {save.error && <p className="error" role="alert">{save.error.message}</p>}
        <div className="actions">
          <Button type="submit" className="primary" isDisabled={save.isPending}>{w.save}</Button>
          <Button onPress={onClose}>{words.cancel}</Button>
        </div>
      </Form>
    </Popup>
  );
}
