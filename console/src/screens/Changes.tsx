import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { Button, Input, TextField } from "react-aria-components";

import { get, type Schemas } from "../api/http";
import { Badge, Code, Time } from "../ui/parts";
import { Empty, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.changes;
const FIELDS = { subject: w.subject, action: w.action, resource: w.resource };

type Entry = Schemas["AuditEntry"];

export default function Changes() {
  const search = useSearch({ strict: false }) as Record<string, string | undefined>;
  const navigate = useNavigate();
  const [chosen, setChosen] = useState<Entry | null>(null);
  const log = useInfiniteQuery({
    queryKey: ["changes", search],
    queryFn: ({ pageParam }) =>
      get<Schemas["ListAuditLogResponse"]>("/v1/audit-log", { ...search, page_size: 100, page_token: pageParam }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_page_token || undefined,
    placeholderData: (before) => before,
  });
  const change = (name: string, value: string) => {
    const { [name]: _, ...rest } = search;
    void navigate({ to: "/changes", search: (value ? { ...rest, [name]: value } : rest) as Record<string, string>, replace: true });
  };
  return (
    <Page title={w.title}>
      <div className="filters">
        {Object.entries(FIELDS).map(([name, title]) => (
          <TextField key={name} aria-label={title} defaultValue={search[name] ?? ""} onChange={(value) => change(name, value)}>
            <Input placeholder={title} />
          </TextField>
        ))}
      </div>
      <div className={chosen ? "split" : undefined}>
        <Loading query={log}>
          {({ pages }) => {
            const rows = pages.flatMap((page) => page.entries);
            return rows.length === 0 ? (
              <Empty title={w.empty} />
            ) : (
              <div>
                <Table
                  label={w.title}
                  rows={rows}
                  rowKey={(row) => row.id}
                  selected={chosen?.id}
                  onSelect={setChosen}
                  columns={[
                    { title: "When", cell: (row) => <Time value={row.time} /> },
                    { title: w.subject, cell: (row) => row.subject || "–" },
                    { title: w.action, cell: (row) => row.action },
                    { title: w.resource, minor: true, cell: (row) => <span className="cut wide">{row.resource}</span> },
                    { title: w.outcome, cell: (row) => <Badge tone={row.outcome === "done" ? "good" : row.outcome === "rejected" ? "bad" : "wait"}>{row.rejection || row.outcome}</Badge> },
                  ]}
                />
                {log.hasNextPage && (
                  <Button isDisabled={log.isFetchingNextPage} onPress={() => void log.fetchNextPage()}>{words.more}</Button>
                )}
              </div>
            );
          }}
        </Loading>
        {chosen && (
          <aside className="detail" aria-label={chosen.action}>
            <h2>{chosen.action}</h2>
            <p className="muted small">{chosen.credential} · request {chosen.request_id}</p>
            <h3>Requested</h3>
            <Code text={JSON.stringify(chosen.requested, null, 2)} label="Requested" />
            <h3>Before</h3>
            <Code text={JSON.stringify(chosen.before, null, 2)} label="Before" />
            <h3>After</h3>
            <Code text={JSON.stringify(chosen.after, null, 2)} label="After" />
          </aside>
        )}
      </div>
    </Page>
  );
}
