import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Button, Form, Input, Label, TextField } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { useMay } from "../app/session";
import { Confirm, Popup, Time } from "../ui/parts";
import { Empty, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.secrets;
const SECRETS = ["secrets"];

/** Names of the tenant's secrets: values go in and are shown nowhere. */
export default function Secrets() {
  const client = useQueryClient();
  const [storing, setStoring] = useState<string | null>(null);
  const [leaving, setLeaving] = useState<string | null>(null);
  const mayStore = useMay("PutSecretRest");
  const secrets = useQuery({
    queryKey: SECRETS,
    queryFn: () => get<Schemas["ListSecretsResponse"]>("/v1/secrets", { page_size: 500 }),
  });
  const remove = useMutation({
    mutationFn: (name: string) => write("DELETE", `/v1/secrets/${encodeURIComponent(name)}`),
    onSuccess: () => client.invalidateQueries({ queryKey: SECRETS }),
  });
  return (
    <Page title={w.title} actions={mayStore && <Button className="primary" onPress={() => setStoring("")}>{w.store}</Button>}>
      {storing !== null && <StoreSecret name={storing} onClose={() => setStoring(null)} />}
      {leaving !== null && (
        <Confirm
          title={w.sure(leaving)}
          hint={w.gone}
          action={words.delete}
          error={remove.error}
          onClose={() => setLeaving(null)}
          onConfirm={() => remove.mutate(leaving, { onSuccess: () => setLeaving(null) })}
        />
      )}
      <p className="muted wide">{w.hint}</p>
      <Loading query={secrets}>
        {({ secrets: rows }) =>
          rows.length === 0 ? (
            <Empty title={w.empty} hint={w.emptyHint} />
          ) : (
            <Table
              label={w.title}
              rows={rows}
              rowKey={(row) => row.name!}
              columns={[
                { title: w.name, cell: (row) => <code>secret://{row.name}</code> },
                { title: w.version, numeric: true, cell: (row) => row.version },
                { title: w.stored, cell: (row) => <Time value={row.update_time} /> },
                { title: w.by, minor: true, cell: (row) => row.updated_by },
                ...(mayStore
                  ? [
                      {
                        title: words.actions,
                        cell: (row: Schemas["Secret"]) => (
                          <span className="actions">
                            <Button onPress={() => setStoring(row.name!)}>{w.rotate}</Button>
                            <Button onPress={() => setLeaving(row.name!)}>{words.delete}</Button>
                          </span>
                        ),
                      },
                    ]
                  : []),
              ]}
            />
          )
        }
      </Loading>
    </Page>
  );
}

function StoreSecret({ name: given, onClose }: { name: string; onClose: () => void }) {
  const client = useQueryClient();
  const [name, setName] = useState(given);
  const [value, setValue] = useState("");
  const store = useMutation({
    mutationFn: () => write("PUT", `/v1/secrets/${encodeURIComponent(name.trim())}`, { value }),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: SECRETS });
      onClose();
    },
  });
  return (
    <Popup title={given ? w.rotateOf(given) : w.store} open onClose={onClose}>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          store.mutate();
        }}
      >
        {!given && (
          <TextField value={name} onChange={setName} isRequired autoFocus maxLength={64}>
            <Label>{w.name}</Label>
            <Input spellCheck={false} />
          </TextField>
        )}
        <TextField value={value} onChange={setValue} isRequired type="password" autoComplete="off" autoFocus={Boolean(given)}>
          <Label>{w.value}</Label>
          <Input />
        </TextField>
        {store.error && <p className="error" role="alert">{store.error.message}</p>}
        <div className="actions">
          <Button type="submit" className="primary" isDisabled={store.isPending || !name.trim() || !value}>{w.storeIt}</Button>
          <Button onPress={onClose}>{words.cancel}</Button>
        </div>
      </Form>
    </Popup>
  );
}
