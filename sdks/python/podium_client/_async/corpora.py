"""Documents that retrieval tools search."""

from collections.abc import Sequence

from podium_client._async.pages import AsyncPages
from podium_client._async.transport import AsyncTransport
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


class AsyncCorpora:
    """Corpora and their documents."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def put(
        self, corpus: str, documents: Sequence[Document], *, shared: bool = False
    ) -> PutDocumentsResponse:
        """Adds or replaces documents; the corpus is made when it does not exist."""
        body = PutDocumentsRequest(documents=[*documents], shared=shared)
        return await self._transport.call(
            "PUT", path(DOCUMENTS, corpus=corpus), PutDocumentsResponse, body=body
        )

    async def search(self, corpus: str, query: str, *, top_k: int = 0) -> Sequence[Hit]:
        """Passages, best first."""
        reply = await self._transport.call(
            "GET",
            path("/v1/corpora/{corpus}/search", corpus=corpus),
            SearchResponse,
            query={"query": query, "top_k": top_k},
        )
        return reply.hits

    def list(self, *, page_size: int = 0) -> AsyncPages[Corpus]:
        """Lists corpora in name order."""
        return self._transport.pages(
            "/v1/corpora",
            ListCorporaResponse,
            lambda page: (page.corpora, page.next_page_token),
            {"page_size": page_size},
        )

    def documents(self, corpus: str, *, page_size: int = 0) -> AsyncPages[DocumentSummary]:
        """Lists documents in the order of their ids."""
        return self._transport.pages(
            path(DOCUMENTS, corpus=corpus),
            ListDocumentsResponse,
            lambda page: (page.documents, page.next_page_token),
            {"page_size": page_size},
        )

    async def delete_documents(self, corpus: str, ids: Sequence[str]) -> int:
        """Deletes documents and returns the number of those that existed."""
        reply = await self._transport.call(
            "DELETE", path(DOCUMENTS, corpus=corpus), DeleteDocumentsResponse, query={"ids": [*ids]}
        )
        return reply.deleted_count

    async def delete(self, corpus: str) -> int:
        """Deletes a corpus; how many documents it held."""
        address = path("/v1/corpora/{corpus}", corpus=corpus)
        return (await self._transport.call("DELETE", address, DeleteCorpusResponse)).deleted_count
