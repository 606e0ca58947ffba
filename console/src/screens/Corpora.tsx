import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Button, Form, Input, Label, TextField } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { useMay } from "../app/session";
import { count } from "../format";
import { Confirm } from "../ui/parts";
import { Empty, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";
import { UploadDocuments } from "./UploadDocuments";

const w = words.corpora;

export default function Corpora() {
  const [chosen, setChosen] = useState<string | null>(null);
  const [uploading, setUploading] = useState(false);
  const mayWrite = useMay("PutDocumentsRest");
  const corpora = useQuery({
    queryKey: ["corpora"],
    queryFn: () => get<Schemas["ListCorporaResponse"]>("/v1/corpora", { page_size: 500 }),
  });
  const own = corpora.data?.corpora.find((each) => each.name === chosen && !each.shared);
  return (
    <Page
      title={w.title}
      actions={mayWrite && <Button className="primary" onPress={() => setUploading(true)}>{w.upload}</Button>}
    >
      {uploading && <UploadDocuments corpus={own?.name ?? ""} onClose={() => setUploading(false)} onStored={setChosen} />}
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
                  { title: w.name, cell: (row) => row.name },
                  { title: w.documents, numeric: true, cell: (row) => count(row.document_count) },
                  { title: w.passages, numeric: true, cell: (row) => count(row.passage_count) },
                  { title: w.of, minor: true, cell: (row) => (row.shared ? w.shared : w.own) },
                ]}
              />
            )
          }
        </Loading>
        {chosen && (
          <aside className="detail" key={chosen} aria-label={chosen}>
            <SearchCorpus corpus={chosen} />
            <Documents corpus={chosen} mayDelete={mayWrite && own !== undefined} onDeleted={() => setChosen(null)} />
          </aside>
        )}
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
    <section aria-label={w.search}>
      <h2>{corpus}</h2>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          search.mutate();
        }}
      >
        <TextField value={query} onChange={setQuery} isRequired maxLength={2000}>
          <Label>{w.words}</Label>
          <Input />
        </TextField>
        <div className="actions">
          <Button type="submit" isDisabled={search.isPending || !query.trim()}>{w.search}</Button>
        </div>
      </Form>
      {search.error && <p className="error" role="alert">{search.error.message}</p>}
      {search.data?.hits.length === 0 && <p className="muted" role="status">{w.noHits}</p>}
      {search.data?.hits.map((hit) => (
        <blockquote key={`${hit.document_id}/${hit.start}/${hit.page}`}>
          <p>{hit.passage}</p>
          <footer className="muted small">{citationOf(hit)}</footer>
        </blockquote>
      ))}
    </section>
  );
}

/** Where a passage is from: document, section, page or characters, and its source. */
function citationOf(hit: Schemas["Hit"]): string {
  const place = hit.page ? w.page(hit.page) : hit.end ? w.characters(hit.start ?? 0, hit.end) : "";
  return [hit.title || hit.document_id, hit.section, place, hit.uri].filter(Boolean).join(" · ");
}

function Documents({ corpus, mayDelete, onDeleted }: { corpus: string; mayDelete: boolean; onDeleted: () => void }) {
  const client = useQueryClient();
  const path = `/v1/corpora/${encodeURIComponent(corpus)}`;
  // The id of a document, or "" for the whole corpus.
  const [leaving, setLeaving] = useState<string | null>(null);
  const documents = useInfiniteQuery({
    queryKey: ["corpora", corpus, "documents"],
    queryFn: ({ pageParam }) =>
      get<Schemas["ListDocumentsResponse"]>(`${path}/documents`, { page_size: 100, page_token: pageParam }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_page_token || undefined,
  });
  const remove = useMutation({
    mutationFn: (id: string) => write("DELETE", id ? `${path}/documents?ids=${encodeURIComponent(id)}` : path),
    onSuccess: async (_, id) => {
      setLeaving(null);
      await client.invalidateQueries({ queryKey: ["corpora"] });
      if (!id) onDeleted();
    },
  });
  return (
    <section className="spaced">
      <h2>{w.documents}</h2>
      {leaving !== null && (
        <Confirm
          title={leaving ? w.sureDocument(leaving) : w.sureCorpus(corpus)}
          hint={leaving ? w.documentGone : w.corpusGone}
          action={words.delete}
          error={remove.error}
          onClose={() => setLeaving(null)}
          onConfirm={() => remove.mutate(leaving)}
        />
      )}
      <Loading query={documents}>
        {({ pages }) => (
          <>
            <Table
              label={w.documents}
              rows={pages.flatMap((page) => page.documents)}
              rowKey={(row) => row.id!}
              columns={[
                {
                  title: w.document,
                  cell: (row) => (
                    <>
                      {row.title || row.id}
                      {row.title && row.title !== row.id && <span className="muted small"> {row.id}</span>}
                      {row.uri && <span className="muted small"> · {row.uri}</span>}
                    </>
                  ),
                },
                { title: w.passages, numeric: true, cell: (row) => count(row.passage_count) },
                ...(mayDelete
                  ? [{ title: words.actions, cell: (row: Schemas["DocumentSummary"]) => <Button onPress={() => setLeaving(row.id!)}>{words.delete}</Button> }]
                  : []),
              ]}
            />
            <div className="actions">
              {documents.hasNextPage && (
                <Button isDisabled={documents.isFetchingNextPage} onPress={() => void documents.fetchNextPage()}>{words.more}</Button>
              )}
              {mayDelete && <Button onPress={() => setLeaving("")}>{w.deleteCorpus}</Button>}
            </div>
          </>
        )}
      </Loading>
    </section>
  );
}
