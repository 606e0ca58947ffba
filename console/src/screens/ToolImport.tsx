import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { Button, Checkbox, FileTrigger, Form, Input, Label, Tab, TabList, TabPanel, Tabs, Text, TextArea, TextField } from "react-aria-components";

import { write, type Schemas } from "../api/http";
import { name } from "../format";
import { Badge } from "../ui/parts";
import { Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.toolImport;

type Spec = Schemas["ToolSpec"];

interface Found {
  from: string;
  specs: Spec[];
  skipped: { name: string; reason: string }[];
  notices: string[];
}

/** Reads tools out of an OpenAPI document or an MCP server, and registers those that are chosen. */
export default function ToolImport() {
  const [found, setFound] = useState<Found | null>(null);
  return (
    <Page title={w.title}>
      <div className="split">
        <Tabs className="tabs" onSelectionChange={() => setFound(null)}>
          <TabList aria-label={w.title}>
            <Tab id="openapi">{w.openapi}</Tab>
            <Tab id="mcp">{w.mcp}</Tab>
          </TabList>
          <TabPanel id="openapi"><OpenApi onFound={setFound} /></TabPanel>
          <TabPanel id="mcp"><Mcp onFound={setFound} /></TabPanel>
        </Tabs>
        {found && <Chosen key={JSON.stringify(found)} found={found} />}
      </div>
    </Page>
  );
}

interface SourceProps {
  onFound: (found: Found | null) => void;
}

function Line({ label, hint, value, onChange }: { label: string; hint?: string; value: string; onChange: (text: string) => void }) {
  return (
    <TextField value={value} onChange={onChange}>
      <Label>{label}</Label>
      <Input autoComplete="off" spellCheck={false} />
      {hint && <Text slot="description" className="muted small">{hint}</Text>}
    </TextField>
  );
}

const secretOf = (secret: string) => (secret.trim() ? { name: secret.trim() } : undefined);

function OpenApi({ onFound }: SourceProps) {
  const [document, setDocument] = useState("");
  const [baseUrl, setBaseUrl] = useState("");
  const [prefix, setPrefix] = useState("");
  const [secret, setSecret] = useState("");
  const read = useMutation({
    mutationFn: () =>
      write<Schemas["ReadOpenApiResponse"]>("POST", "/v1/tools/read-openapi", {
        document, base_url: baseUrl, name_prefix: prefix, secret: secretOf(secret),
      }),
    onMutate: () => onFound(null),
    onSuccess: ({ title, specs, skipped }) =>
      onFound({ from: title, specs, notices: [], skipped: skipped.map((each) => ({ name: each.operation, reason: each.reason })) }),
  });
  return (
    <Form
      onSubmit={(event) => {
        event.preventDefault();
        read.mutate();
      }}
    >
      <div className="actions">
        <FileTrigger acceptedFileTypes={[".yaml", ".yml", ".json"]} onSelect={(files) => void files?.[0]?.text().then(setDocument)}>
          <Button>{w.file}</Button>
        </FileTrigger>
      </div>
      <TextField value={document} onChange={setDocument} isRequired>
        <Label>{w.document}</Label>
        <TextArea rows={10} spellCheck={false} className="react-aria-TextArea mono" />
        <Text slot="description" className="muted small">{w.documentHint}</Text>
      </TextField>
      <Line label={w.baseUrl} hint={w.baseUrlHint} value={baseUrl} onChange={setBaseUrl} />
      <Line label={w.prefix} hint={w.prefixHint} value={prefix} onChange={setPrefix} />
      <Line label={w.secret} hint={w.secretHint} value={secret} onChange={setSecret} />
      {read.error && <p className="error" role="alert">{read.error.message}</p>}
      <div className="actions">
        <Button type="submit" className="primary" isDisabled={read.isPending || !document.trim()}>{w.read}</Button>
      </div>
    </Form>
  );
}

function Mcp({ onFound }: SourceProps) {
  const [url, setUrl] = useState("");
  const [server, setServer] = useState("");
  const [prefix, setPrefix] = useState("");
  const [secret, setSecret] = useState("");
  const connection = server.trim() ? { stdio: { server: server.trim() } } : { http: { url: url.trim(), secret: secretOf(secret) } };
  const read = useMutation({
    mutationFn: () =>
      write<Schemas["DiscoverMcpToolsResponse"]>("POST", "/v1/tools/discover-mcp", { connection, name_prefix: prefix }),
    onMutate: () => onFound(null),
    onSuccess: ({ server_name: from, specs, skipped, notices }) => onFound({ from, specs, skipped, notices }),
  });
  return (
    <Form
      onSubmit={(event) => {
        event.preventDefault();
        read.mutate();
      }}
    >
      <Line label={w.url} value={url} onChange={setUrl} />
      <Line label={w.stdio} hint={w.stdioHint} value={server} onChange={setServer} />
      <Line label={w.prefix} hint={w.prefixHint} value={prefix} onChange={setPrefix} />
      <Line label={w.secret} value={secret} onChange={setSecret} />
      {read.error && <p className="error" role="alert">{read.error.message}</p>}
      <div className="actions">
        <Button type="submit" className="primary" isDisabled={read.isPending || !(url.trim() || server.trim())}>{w.read}</Button>
      </div>
    </Form>
  );
}

function Chosen({ found }: { found: Found }) {
  const client = useQueryClient();
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const specs = found.specs.filter((each) => !left.has(each.name));
  const register = useMutation({
    mutationFn: () => write<Schemas["RegisterToolsResponse"]>("POST", "/v1/tools/batch", { specs }),
    onSuccess: () => client.invalidateQueries({ queryKey: ["tools"] }),
  });
  const choose = (tool: string, chosen: boolean) => {
    const next = new Set(left);
    if (chosen) next.delete(tool);
    else next.add(tool);
    setLeft(next);
  };
  return (
    <section className="detail" aria-label={w.found(found.specs.length, found.from)}>
      <h2 aria-live="polite">{w.found(found.specs.length, found.from)}</h2>
      {found.notices.map((each) => <p key={each} className="notice">{each}</p>)}
      {found.specs.length === 0 && <p className="muted">{w.none}</p>}
      {register.data ? (
        <Table
          label={w.results}
          rows={register.data.tools}
          rowKey={(row) => row.name}
          columns={[
            { title: words.tools.name, cell: (row) => (row.problem ? row.name : <Link to="/tools/$name" params={{ name: row.name }}>{row.name}</Link>) },
            {
              title: w.results,
              cell: (row) =>
                row.problem ? <Badge tone="bad">{row.problem}</Badge> : <Badge tone="good">{row.created ? w.created(row.version) : w.same(row.version)}</Badge>,
            },
          ]}
        />
      ) : (
        found.specs.length > 0 && (
          <>
            <Table
              label={w.choose}
              rows={found.specs}
              rowKey={(row) => row.name}
              columns={[
                {
                  title: w.choose,
                  cell: (row) => (
                    <Checkbox aria-label={row.name} isSelected={!left.has(row.name)} onChange={(chosen) => choose(row.name, chosen)}>
                      <span className="box" aria-hidden="true" /> {row.name}
                    </Checkbox>
                  ),
                },
                { title: w.effect, cell: (row) => name(row.side_effect, "SIDE_EFFECT_") },
                { title: words.tools.description, minor: true, cell: (row) => <span className="cut wide">{row.description}</span> },
              ]}
            />
            {register.error && <p className="error" role="alert">{register.error.message}</p>}
            <div className="actions">
              <Button className="primary" isDisabled={register.isPending || specs.length === 0} onPress={() => register.mutate()}>{w.register(specs.length)}</Button>
            </div>
          </>
        )
      )}
      {found.skipped.length > 0 && (
        <>
          <h3>{w.skipped}</h3>
          <Table
            label={w.skipped}
            rows={found.skipped}
            rowKey={(row) => row.name}
            columns={[
              { title: words.tools.name, cell: (row) => row.name },
              { title: w.reason, cell: (row) => row.reason },
            ]}
          />
        </>
      )}
    </section>
  );
}
