from typing import Any

from grpc.aio import ServicerContext

from podium.adapters.v1 import corpus_service_pb2 as pb
from podium.adapters.v1 import corpus_service_pb2_grpc as rpc
from podium_kit.rpc.identity import current_identity
from podium_kit.rpc.pages import decode_page_token, encode_page_token, page_size
from tool_adapters.corpus.convert import (
    corpus_to_proto,
    document_from_proto,
    document_to_proto,
    hit_to_proto,
)
from tool_adapters.corpus.models import CorpusSummary
from tool_adapters.corpus.service import Corpora

Context = ServicerContext[Any, Any]


class CorpusServicer(rpc.CorpusServiceServicer):
    def __init__(self, corpora: Corpora) -> None:
        self._corpora = corpora

    async def PutDocuments(
        self, request: pb.PutDocumentsRequest, context: Context
    ) -> pb.PutDocumentsResponse:
        documents = [document_from_proto(message) for message in request.documents]
        changed, passages = await self._corpora.put(
            request.corpus, documents, shared=request.shared
        )
        return pb.PutDocumentsResponse(changed_count=changed, passage_count=passages)

    async def DeleteDocuments(
        self, request: pb.DeleteDocumentsRequest, context: Context
    ) -> pb.DeleteDocumentsResponse:
        deleted = await self._corpora.delete(request.corpus, request.ids)
        return pb.DeleteDocumentsResponse(deleted_count=deleted)

    async def DeleteCorpus(
        self, request: pb.DeleteCorpusRequest, context: Context
    ) -> pb.DeleteCorpusResponse:
        deleted = await self._corpora.delete_corpus(request.corpus)
        return pb.DeleteCorpusResponse(deleted_count=deleted)

    async def ListDocuments(
        self, request: pb.ListDocumentsRequest, context: Context
    ) -> pb.ListDocumentsResponse:
        after = decode_page_token(request.page_token).get("id", "")
        size = page_size(request.page_size, default=100, maximum=1000)
        found = await self._corpora.list_documents(request.corpus, after, size + 1)
        more = len(found) > size
        return pb.ListDocumentsResponse(
            documents=[document_to_proto(summary) for summary in found[:size]],
            next_page_token=encode_page_token({"id": found[size - 1].id}) if more else "",
        )

    async def ListCorpora(
        self, request: pb.ListCorporaRequest, context: Context
    ) -> pb.ListCorporaResponse:
        after = decode_page_token(request.page_token)
        size = page_size(request.page_size, default=50, maximum=500)
        place = (after.get("name", ""), after.get("owner", ""))
        # One more than the page tells whether there is a next one.
        found = await self._corpora.list_corpora(place, size + 1)
        return pb.ListCorporaResponse(
            corpora=[corpus_to_proto(summary) for summary in found[:size]],
            next_page_token=_token(found[size - 1]) if len(found) > size else "",
        )

    async def Search(self, request: pb.SearchRequest, context: Context) -> pb.SearchResponse:
        tenant = current_identity().tenant
        hits = await self._corpora.search(tenant, request.corpus, request.query, request.top_k)
        return pb.SearchResponse(hits=[hit_to_proto(hit) for hit in hits])


def _token(last: CorpusSummary) -> str:
    return encode_page_token({"name": last.key.name, "owner": last.key.owner})
