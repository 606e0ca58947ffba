import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Button, Form, Input, Label, TextField } from "react-aria-components";

import { get, type Schemas } from "../api/http";
import { count } from "../format";
import { Empty, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.corpora;

export default function Corpora() {
  const [chosen, setChosen] = useState<string | null>(null);
  const corpora = useQuery({
    queryKey: ["corpora"],
    queryFn: () => get<Schemas["ListCorporaResponse"]>("/v1/corpora", { page_size: 200 }),
  });
  return (
    <Page title={w.title}>
      <div className={chosen ? "split" : undefined}>
        <Loading query={corpora}>
          {({ corpora: rows }) =>
            rows.length === 0 ? (
              <Empty title={w.empty} hint={w.emptyHint} />
            ) : (
              <Table
                label={w.title}
                rows={rows}
                rowKey={(row) => row.name!}
                selected={chosen ?? undefined}
                onSelect={(row) => setChosen(row.name!)}
                columns={[
                  { title: "Name", cell: (row) => row.name },
                  { title: "Documents", numeric: true, cell: (row) => count(row.document_count) },
                  { title: "Passages", numeric: true, cell: (row) => count(row.passage_count) },
                ]}
              />
            )
          }
        </Loading>
        {chosen && <SearchCorpus corpus={chosen} />}
      </div>
    </Page>
  );
}

function SearchCorpus({ corpus }: { corpus: string }) {
  const [query, setQuery] = useState("");
  const search = useMutation({
    mutationFn: () => get<Schemas["SearchResponse"]>(`/v1/corpora/${encodeURIComponent(corpus)}/search`, { query, top_k: 10 }),
  });
  return (
    <aside className="detail" aria-label={corpus}>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          search.mutate();
        }}
      >
        <TextField value={query} onChange={setQuery} isRequired>
          <Label>{w.search}</Label>
          <Input />
        </TextField>
        <Button type="submit" isDisabled={search.isPending || !query.trim()}>{w.search}</Button>
      </Form>
      {search.error && <p className="error" role="alert">{search.error.message}</p>}
      {search.data?.hits.map((hit) => (
        <blockquote key={`${hit.document_id}/${hit.start}`}>
          <p>{hit.passage}</p>
          <footer className="muted small">
            {hit.title || hit.document_id}
            {hit.page ? `, page ${hit.page}` : ""} · {hit.score?.toFixed(2)}
          </footer>
        </blockquote>
      ))}
    </aside>
  );
}
