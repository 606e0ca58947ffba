import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Button, Form, Input, Label, TextField } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { useMay, useSession } from "../app/session";
import { count } from "../format";
import { Page, Loading } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.limits;

type Limits = Schemas["Limits"];
type Name = keyof typeof w.fields;

const NAMES = Object.keys(w.fields) as Name[];

/** What a tenant may use of the gateway at once; the platform's admin changes it, for any tenant. */
export default function LimitsPage() {
  const { tenant } = useSession();
  const operator = useMay("ChangeTenantLimits");
  const [chosen, setChosen] = useState(tenant);
  const [typed, setTyped] = useState(tenant);
  const path = operator ? `/v1/tenants/${encodeURIComponent(chosen)}/limits` : "/v1/limits";
  const limits = useQuery({ queryKey: ["limits", path], queryFn: () => get<Limits>(path) });
  return (
    <Page title={w.title}>
      <p className="muted wide">{operator ? w.operatorHint : w.hint}</p>
      {operator && (
        <Form
          className="inline"
          onSubmit={(event) => {
            event.preventDefault();
            setChosen(typed.trim());
          }}
        >
          <TextField value={typed} onChange={setTyped} isRequired maxLength={128}>
            <Label>{w.tenant}</Label>
            <Input />
          </TextField>
          <Button type="submit" isDisabled={!typed.trim()}>{w.show}</Button>
        </Form>
      )}
      <Loading query={limits}>
        {(shown) =>
          operator ? (
            <>
              <h2>{w.of(chosen)}</h2>
              <ChangeLimits key={`${path} ${JSON.stringify(shown)}`} limits={shown} path={path} />
            </>
          ) : (
            <Table
              label={w.title}
              rows={NAMES}
              rowKey={(name) => name}
              columns={[
                { title: w.limit, cell: (name) => w.fields[name] },
                { title: w.value, numeric: true, cell: (name) => (shown[name] === null ? w.byDefault : count(shown[name])) },
              ]}
            />
          )
        }
      </Loading>
    </Page>
  );
}

function ChangeLimits({ limits, path }: { limits: Limits; path: string }) {
  const client = useQueryClient();
  const [values, setValues] = useState(() => Object.fromEntries(NAMES.map((name) => [name, String(limits[name] ?? "")])));
  const changed = { onSuccess: () => client.invalidateQueries({ queryKey: ["limits"] }) };
  const save = useMutation({
    mutationFn: () => {
      const given = NAMES.filter((name) => values[name]!.trim() && values[name] !== String(limits[name] ?? ""));
      return write("PUT", path, Object.fromEntries(given.map((name) => [name, Number.isNaN(Number(values[name])) ? values[name] : Number(values[name])])));
    },
    ...changed,
  });
  const reset = useMutation({ mutationFn: () => write("DELETE", path), ...changed });
  const error = save.error ?? reset.error;
  return (
    <Form
      className="react-aria-Form card"
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      {NAMES.map((name) => (
        <TextField key={name} value={values[name]!} onChange={(value) => setValues({ ...values, [name]: value })} inputMode="decimal">
          <Label>{w.fields[name]}</Label>
          <Input placeholder={w.byDefault} />
        </TextField>
      ))}
      {error && <p className="error" role="alert">{error.message}</p>}
      <div className="actions">
        <Button type="submit" className="primary" isDisabled={save.isPending}>{w.save}</Button>
        <Button isDisabled={reset.isPending} onPress={() => reset.mutate()}>{w.reset}</Button>
      </div>
    </Form>
  );
}
