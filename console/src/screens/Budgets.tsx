import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { Button, Form, Input, Label, TextField } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
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
  const limit = Number(budget.hard_limit?.amount ?? 0);
  const [posted, held] = [Number(status.posted?.amount ?? 0), Number(status.held?.amount ?? 0)];
  const [raising, setRaising] = useState(false);
  const [past, setPast] = useState(false);
  const mayChange = useMay("UpdateBudgetRest");
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
          [w.limit, money(budget.hard_limit)],
        ]}
      />
      {!budget.close_time && <Pace status={status} />}
      <div className="actions">
        {mayChange && !budget.close_time && <Button onPress={() => setRaising(true)}>{w.raise}</Button>}
        <Button aria-expanded={past} onPress={() => setPast(!past)}>{w.windows}</Button>
      </div>
      {past && (
        <Suspense fallback={<Skeleton rows={2} />}>
          <BudgetWindows id={budget.id!} />
        </Suspense>
      )}
      {raising && <Raise status={status} onClose={() => setRaising(false)} />}
    </li>
  );
}

/** How fast the money goes, against an even use of the window up to the server's forecast. */
function Pace({ status }: { status: Status }) {
  const limit = Number(status.budget?.hard_limit?.amount ?? 0);
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

function Raise({ status, onClose }: { status: Status; onClose: () => void }) {
  const client = useQueryClient();
  const budget = status.budget!;
  const [amount, setAmount] = useState(budget.hard_limit?.amount ?? "");
  const save = useMutation({
    mutationFn: () =>
      write("PATCH", `/v1/budgets/${encodeURIComponent(budget.id!)}`, {
        hard_limit: { ...budget.hard_limit, amount },
        version: budget.version,
        update_mask: "hardLimit",
      }),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["budgets"] });
      onClose();
    },
  });
  return (
    <Popup title={`${w.raise}: ${budget.id}`} open onClose={onClose}>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <TextField value={amount} onChange={setAmount} isRequired inputMode="decimal" autoFocus>
          <Label>{w.newLimit}</Label>
          <Input />
        </TextField>
        {save.error && <p className="error" role="alert">{save.error.message}</p>}
        <div className="actions">
          <Button type="submit" className="primary" isDisabled={save.isPending}>{w.save}</Button>
          <Button onPress={onClose}>{words.cancel}</Button>
        </div>
      </Form>
    </Popup>
  );
}
