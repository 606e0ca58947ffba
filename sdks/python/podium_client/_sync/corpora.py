# Written by `make sdk` from podium_client/_async; do not edit.
"""Documents that retrieval tools search."""

from collections.abc import Sequence

from podium_client._sync.pages import Pages
from podium_client._sync.transport import Transport
from podium_client.models import (
    Corpus,
    DeleteCorpusResponse,
    DeleteDocumentsResponse,
    Document,
    DocumentSummary,
    Hit,
    ListCorporaResponse,
    ListDocumentsResponse,
    PutDocumentsRequest,
    PutDocumentsResponse,
    SearchResponse,
)
from podium_client.wire import path

DOCUMENTS = "/v1/corpora/{corpus}/documents"


class Corpora:
    """Corpora and their documents."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def put(
        self, corpus: str, documents: Sequence[Document], *, shared: bool = False
    ) -> PutDocumentsResponse:
        """Adds or replaces documents; the corpus is made when it does not exist."""
        body = PutDocumentsRequest(documents=[*documents], shared=shared)
        return self._transport.call(
            "PUT", path(DOCUMENTS, corpus=corpus), PutDocumentsResponse, body=body
        )

    def search(self, corpus: str, query: str, *, top_k: int = 0) -> Sequence[Hit]:
        """Passages, best first."""
        reply = self._transport.call(
            "GET",
            path("/v1/corpora/{corpus}/search", corpus=corpus),
            SearchResponse,
            query={"query": query, "top_k": top_k},
        )
        return reply.hits

    def list(self, *, page_size: int = 0) -> Pages[Corpus]:
        """Lists corpora in name order."""
        return self._transport.pages(
            "/v1/corpora",
            ListCorporaResponse,
            lambda page: (page.corpora, page.next_page_token),
            {"page_size": page_size},
        )

    def documents(self, corpus: str, *, page_size: int = 0) -> Pages[DocumentSummary]:
        """Lists documents in the order of their ids."""
        return self._transport.pages(
            path(DOCUMENTS, corpus=corpus),
            ListDocumentsResponse,
            lambda page: (page.documents, page.next_page_token),
            {"page_size": page_size},
        )

    def delete_documents(self, corpus: str, ids: Sequence[str]) -> int:
        """Deletes documents and returns the number of those that existed."""
        reply = self._transport.call(
            "DELETE", path(DOCUMENTS, corpus=corpus), DeleteDocumentsResponse, query={"ids": [*ids]}
        )
        return reply.deleted_count

    def delete(self, corpus: str) -> int:
        """Deletes a corpus; how many documents it held."""
        address = path("/v1/corpora/{corpus}", corpus=corpus)
        return (self._transport.call("DELETE", address, DeleteCorpusResponse)).deleted_count
