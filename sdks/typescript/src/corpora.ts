import type { Input, ListOptions } from "./inputs.js";
import type { Pages } from "./pages.js";
import type {
  Corpus,
  DeleteCorpusResponse,
  DeleteDocumentsResponse,
  Document,
  DocumentSummary,
  Hit,
  ListCorporaResponse,
  ListDocumentsResponse,
  PutDocumentsResponse,
  SearchResponse,
} from "./schema.js";
import { path, type Transport } from "./transport.js";

/** Documents that retrieval tools search. */
export class Corpora {
  constructor(private readonly transport: Transport) {}

  /** Adds or replaces documents; the corpus is made when it does not exist. */
  async put(corpus: string, documents: Input<Document>[]): Promise<PutDocumentsResponse> {
    return this.transport.call("PUT", path`/v1/corpora/${corpus}/documents`, { body: { documents } });
  }

  /** Passages, best first. */
  async search(corpus: string, query: string, topK = 0): Promise<Hit[]> {
    const address = path`/v1/corpora/${corpus}/search`;
    const asked = { query, top_k: topK };
    return (await this.transport.call<SearchResponse>("GET", address, { query: asked })).hits;
  }

  /** In name order. */
  list(options: ListOptions = {}): Pages<Corpus> {
    return this.transport.pages("/v1/corpora", (page: ListCorporaResponse) => page.corpora, {
      page_size: options.pageSize,
    });
  }

  /** In the order of their ids. */
  documents(corpus: string, options: ListOptions = {}): Pages<DocumentSummary> {
    const items = (page: ListDocumentsResponse) => page.documents;
    return this.transport.pages(path`/v1/corpora/${corpus}/documents`, items, {
      page_size: options.pageSize,
    });
  }

  /** How many were there. */
  async deleteDocuments(corpus: string, ids: string[]): Promise<number> {
    const address = path`/v1/corpora/${corpus}/documents`;
    const query = { ids };
    const reply = await this.transport.call<DeleteDocumentsResponse>("DELETE", address, { query });
    return reply.deleted_count;
  }

  /** Deletes a corpus; how many documents it held. */
  async delete(corpus: string): Promise<number> {
    const address = path`/v1/corpora/${corpus}`;
    return (await this.transport.call<DeleteCorpusResponse>("DELETE", address)).deleted_count;
  }
}
