import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { Button, Checkbox, CheckboxGroup, Form, Input, Label, TextField } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { useSession } from "../app/session";
import { Badge, Code, CopyButton, Popup, Time } from "../ui/parts";
import { Empty, Failure, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.keys;
export default function Keys() {
  const client = useQueryClient();
  const [creating, setCreating] = useState(false);
  const { credential } = useSession();
  const roles = useRoles();
  const keys = useQuery({
    queryKey: ["keys"],
    queryFn: () => get<Schemas["ListApiKeysResponse"]>("/v1/api-keys", { page_size: 500 }),
  });
  const revoke = useMutation({
    mutationFn: (id: string) => write("POST", `/v1/api-keys/${id}/revoke`),
    onSuccess: () => client.invalidateQueries({ queryKey: ["keys"] }),
  });
  return (
    <Page title={w.title} actions={<Button className="primary" onPress={() => setCreating(true)}>{w.create}</Button>}>
      {creating && <CreateKey onClose={() => setCreating(false)} />}
      {revoke.error && <Failure error={revoke.error} />}
      <Loading query={keys}>
        {({ api_keys }) =>
          api_keys.length === 0 ? (
            <Empty title={w.empty} />
          ) : (
            <Table
              label={w.title}
              rows={api_keys}
              rowKey={(row) => row.id}
              columns={[
                { title: "Id", cell: (row) => <code>{row.id}</code> },
                { title: w.subject, cell: (row) => row.subject },
                { title: w.roles, cell: (row) => [...row.roles, ...row.scopes].join(", ") },
                { title: w.used, minor: true, cell: (row) => <Time value={row.last_used_time} /> },
                { title: w.expires, minor: true, cell: (row) => (row.expire_time ? <Time value={row.expire_time} /> : w.never) },
                {
                  title: w.revoke,
                  cell: (row) =>
                    row.revoke_time ? (
                      <Badge tone="bad">{w.revoked}</Badge>
                    ) : (
                      <Button
                        isDisabled={revoke.isPending || credential === `api-key ${row.id}`}
                        onPress={() => revoke.mutate(row.id)}
                      >
                        {w.revoke}
                      </Button>
                    ),
                },
              ]}
            />
          )
        }
      </Loading>
      <section className="spaced">
        <h2>{w.roles}</h2>
        <p className="muted wide">
          {w.rolesHint} <Link to="/access">{w.bindings}</Link>
        </p>
        <Loading query={roles}>
          {({ roles: rows }) => (
            <Table
              label={w.roles}
              rows={rows}
              rowKey={(row) => row.role}
              columns={[
                { title: w.role, cell: (row) => row.role },
                { title: w.allows, cell: (row) => row.scopes.join(", ") },
                { title: w.holders, cell: (row) => holdersOf(row.role, keys.data?.api_keys ?? []) },
              ]}
            />
          )}
        </Loading>
      </section>
    </Page>
  );
}

function useRoles() {
  return useQuery({ queryKey: ["roles"], queryFn: () => get<Schemas["ListRolesResponse"]>("/v1/roles"), staleTime: Infinity });
}

/** Subjects that have a key of the role which is not revoked. */
function holdersOf(role: string, keys: readonly Schemas["ApiKey"][]): string {
  const holders = keys.filter((key) => !key.revoke_time && key.roles.some((each) => each === role)).map((key) => key.subject);
  return [...new Set(holders)].sort().join(", ") || "–";
}

function CreateKey({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const [subject, setSubject] = useState("");
  const [roles, setRoles] = useState<string[]>(["developer"]);
  const grantable = useRoles().data?.roles.filter((each) => each.grantable) ?? [];
  const create = useMutation({
    mutationFn: () => write<Schemas["CreateApiKeyResponse"]>("POST", "/v1/api-keys", { subject, roles }),
    onSuccess: () => client.invalidateQueries({ queryKey: ["keys"] }),
  });
  return (
    <Popup title={w.create} open onClose={onClose}>
      {create.data ? (
        <>
          <p className="notice">{w.once}</p>
          <Code text={create.data.key} label={w.title} />
          <div className="actions">
            <CopyButton text={create.data.key} />
            <Button onPress={onClose}>{words.close}</Button>
          </div>
        </>
      ) : (
        <Form
          onSubmit={(event) => {
            event.preventDefault();
            create.mutate();
          }}
        >
          <TextField value={subject} onChange={setSubject} isRequired autoFocus maxLength={128}>
            <Label>{w.subject}</Label>
            <Input />
          </TextField>
          <CheckboxGroup value={roles} onChange={setRoles} isRequired>
            <Label>{w.roles}</Label>
            {grantable.map(({ role }) => (
              <Checkbox key={role} value={role}>
                <span className="box" aria-hidden="true" /> {role}
              </Checkbox>
            ))}
          </CheckboxGroup>
          {create.error && <p className="error" role="alert">{create.error.message}</p>}
          <div className="actions">
            <Button type="submit" className="primary" isDisabled={create.isPending || !subject.trim() || roles.length === 0}>{w.create}</Button>
            <Button onPress={onClose}>{words.cancel}</Button>
          </div>
        </Form>
      )}
    </Popup>
  );
}
