import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Button, Checkbox, CheckboxGroup, Form, Input, Label, TextField } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { name as nameOf, pretty } from "../format";
import { Badge, Choice, Code, Confirm, Facts, Popup, Time } from "../ui/parts";
import { Empty, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.webhooks;
const WEBHOOKS = ["webhooks"];
const DELIVERIES = ["webhook-deliveries"];
const TYPE = "WEBHOOK_EVENT_TYPE_";
const STATE = "WEBHOOK_DELIVERY_STATE_";

type Webhook = Schemas["Webhook"];
type Delivery = Schemas["WebhookDelivery"];

export default function Webhooks() {
  const client = useQueryClient();
  const [adding, setAdding] = useState(false);
  const [leaving, setLeaving] = useState<string | null>(null);
  const webhooks = useQuery({
    queryKey: WEBHOOKS,
    queryFn: () => get<Schemas["ListWebhooksResponse"]>("/v1/webhooks", { page_size: 200 }),
  });
  const remove = useMutation({
    mutationFn: (id: string) => write("DELETE", `/v1/webhooks/${encodeURIComponent(id)}`),
    onSuccess: () => Promise.all([WEBHOOKS, DELIVERIES].map((queryKey) => client.invalidateQueries({ queryKey }))),
  });
  return (
    <Page title={w.title} actions={<Button className="primary" onPress={() => setAdding(true)}>{w.add}</Button>}>
      {adding && <AddWebhook onClose={() => setAdding(false)} />}
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
      <Loading query={webhooks}>
        {({ webhooks: rows }) =>
          rows.length === 0 ? (
            <Empty title={w.empty} hint={w.emptyHint} />
          ) : (
            <>
              <Table
                label={w.title}
                rows={rows}
                rowKey={(row) => row.id!}
                columns={[
                  { title: "Id", cell: (row) => row.id },
                  { title: "URL", cell: (row) => row.url },
                  { title: w.events, cell: eventsOf },
                  { title: w.secret, minor: true, cell: (row) => <code>{row.secret?.name}</code> },
                  { title: w.by, minor: true, cell: (row) => row.created_by },
                  { title: w.since, minor: true, cell: (row) => <Time value={row.create_time} /> },
                  { title: words.actions, cell: (row) => <Button onPress={() => setLeaving(row.id!)}>{words.delete}</Button> },
                ]}
              />
              <Deliveries webhooks={rows} />
            </>
          )
        }
      </Loading>
    </Page>
  );
}

const eventsOf = (webhook: Webhook) => webhook.event_types.map((type) => nameOf(type, TYPE)).join(", ") || w.all;

function AddWebhook({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const [id, setId] = useState("");
  const [url, setUrl] = useState("");
  const [secret, setSecret] = useState("");
  const [types, setTypes] = useState<string[]>([]);
  const add = useMutation({
    mutationFn: () =>
      write("PUT", `/v1/webhooks/${encodeURIComponent(id.trim())}`, {
        url: url.trim(),
        secret: { name: secret.trim() },
        event_types: types.map((type) => TYPE + type),
      }),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: WEBHOOKS });
      onClose();
    },
  });
  return (
    <Popup title={w.add} open onClose={onClose}>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          add.mutate();
        }}
      >
        <TextField value={id} onChange={setId} isRequired autoFocus maxLength={64}>
          <Label>{w.id}</Label>
          <Input spellCheck={false} />
        </TextField>
        <TextField value={url} onChange={setUrl} isRequired type="url" maxLength={2000}>
          <Label>URL</Label>
          <Input placeholder="https://example.org/podium" />
        </TextField>
        <TextField value={secret} onChange={setSecret} isRequired maxLength={64}>
          <Label>{w.secretName}</Label>
          <Input spellCheck={false} />
        </TextField>
        <CheckboxGroup value={types} onChange={setTypes}>
          <Label>{w.choose}</Label>
          {w.types.map((type) => (
            <Checkbox key={type} value={type}>
              <span className="box" aria-hidden="true" /> {nameOf(type, "")}
            </Checkbox>
          ))}
        </CheckboxGroup>
        {add.error && <p className="error" role="alert">{add.error.message}</p>}
        <div className="actions">
          <Button type="submit" className="primary" isDisabled={add.isPending || !id.trim() || !url.trim() || !secret.trim()}>{w.addIt}</Button>
          <Button onPress={onClose}>{words.cancel}</Button>
        </div>
      </Form>
    </Popup>
  );
}

const TONES: Record<string, "good" | "bad" | "wait"> = { DELIVERED: "good", FAILED: "bad" };

function Deliveries({ webhooks }: { webhooks: readonly Webhook[] }) {
  const client = useQueryClient();
  const [of, setOf] = useState("");
  const [state, setState] = useState("");
  const [shown, setShown] = useState<Delivery | null>(null);
  const deliveries = useInfiniteQuery({
    queryKey: [...DELIVERIES, of, state],
    queryFn: ({ pageParam }) =>
      get<Schemas["ListWebhookDeliveriesResponse"]>("/v1/webhook-deliveries", {
        webhook_id: of,
        states: state && STATE + state,
        page_size: 50,
        page_token: pageParam,
      }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_page_token || undefined,
    placeholderData: (before) => before,
    refetchInterval: 10_000,
  });
  const replay = useMutation({
    mutationFn: (id: string) => write("POST", "/v1/webhook-deliveries/replay", { delivery_ids: [id] }),
    onSuccess: () => client.invalidateQueries({ queryKey: DELIVERIES }),
  });
  return (
    <section className="spaced">
      <h2>{w.deliveries}</h2>
      <div className="filters">
        <Choice label={w.title} value={of} options={{ "": w.anyWebhook, ...Object.fromEntries(webhooks.map((each) => [each.id!, each.id!])) }} onChange={setOf} />
        <Choice label={w.state} value={state} options={w.states} onChange={setState} />
      </div>
      {replay.error && <p className="error" role="alert">{replay.error.message}</p>}
      {shown && (
        <Popup title={nameOf(shown.event_type, TYPE)} open onClose={() => setShown(null)}>
          <Facts
            facts={[
              [w.message, <code key="message">{shown.message_id}</code>],
              [w.attempts, String(shown.attempt_count ?? 0)],
              [w.status, String(shown.last_status_code || "–")],
              [w.next, <Time key="next" value={shown.next_attempt_time} />],
            ]}
          />
          {shown.last_error && <p className="error">{shown.last_error}</p>}
          <Code text={pretty(shown.body_json ?? "")} label={w.body} />
          <Button onPress={() => setShown(null)}>{words.close}</Button>
        </Popup>
      )}
      <Loading query={deliveries}>
        {({ pages }) => {
          const rows = pages.flatMap((page) => page.deliveries);
          return rows.length === 0 ? (
            <Empty title={w.noDeliveries} hint={w.noDeliveriesHint} />
          ) : (
            <>
              <Table
                label={w.deliveries}
                rows={rows}
                rowKey={(row) => row.id!}
                onSelect={setShown}
                columns={[
                  { title: w.event, cell: (row) => nameOf(row.event_type, TYPE) },
                  { title: w.to, cell: (row) => row.webhook_id },
                  { title: w.state, cell: (row) => <Badge tone={TONES[row.state!.replace(STATE, "")] ?? "wait"}>{nameOf(row.state, STATE)}</Badge> },
                  { title: w.error, minor: true, cell: (row) => row.last_error || "–" },
                  { title: w.when, minor: true, cell: (row) => <Time value={row.create_time} /> },
                  { title: words.actions, cell: (row) => <Button isDisabled={replay.isPending} onPress={() => replay.mutate(row.id!)}>{w.replay}</Button> },
                ]}
              />
              {deliveries.hasNextPage && (
                <Button isDisabled={deliveries.isFetchingNextPage} onPress={() => void deliveries.fetchNextPage()}>{words.more}</Button>
              )}
            </>
          );
        }}
      </Loading>
    </section>
  );
}
