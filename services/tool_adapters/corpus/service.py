import asyncio
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

from cachetools import LRUCache

from podium_kit.helper_processes import Helpers
from podium_kit.limits.concurrency import FairThread
from podium_kit.rpc.errors import DomainError, InvalidArgument
from podium_kit.rpc.identity import Scope, current_identity, require_scope
from tool_adapters.corpus.charging import ChargedEmbeddings
from tool_adapters.corpus.errors import CorpusNotFound, InvalidSearch
from tool_adapters.corpus.limits import WORDS_MAX
from tool_adapters.corpus.models import (
    SHARED_OWNER,
    CorpusKey,
    CorpusSummary,
    Document,
    DocumentSummary,
    Hit,
    Passage,
)
from tool_adapters.corpus.passages import pieces_of

if TYPE_CHECKING:
    from tool_adapters.corpus.index import PassageIndex

log = logging.getLogger(__name__)

DOCUMENTS_PER_REQUEST_MAX = 1000
QUERY_CHARACTERS_MAX = 2000
TOP_K_DEFAULT = 5
TOP_K_MAX = 50
INDEX_BYTES_KEPT = 512 * 1024**2
# A process that indexes more takes a second to start; less is indexed in less.
INDEXED_HERE_CHARACTERS_MAX = 128 * 1024
INDEXERS = Helpers(
    "tool_adapters.corpus.index_builder",
    count=2,
    per_tenant=1,
    time_max_s=90.0,
    output_bytes_max=INDEX_BYTES_KEPT,
)
THREAD = FairThread()
# A search waits so long for the query's vector, in seconds; then words alone have to do.
QUERY_VECTOR_TIMEOUT_S = 3.0


class CorpusStore(Protocol):
    async def changed(
        self, key: CorpusKey, documents: Sequence[Document], embedding_model: str
    ) -> list[Document]: ...
    async def put(
        self, key: CorpusKey, cut: Mapping[Document, Sequence[Passage]], embedding_model: str
    ) -> int: ...
    async def delete(self, key: CorpusKey, ids: Sequence[str]) -> int: ...
    async def delete_corpus(self, key: CorpusKey) -> int: ...
    async def documents(self, key: CorpusKey, after: str, limit: int) -> list[DocumentSummary]: ...
    async def version(self, key: CorpusKey) -> int | None: ...
    async def passages(self, key: CorpusKey) -> tuple[int, list[Passage]]: ...
    async def list_for(
        self, tenant: str, after: tuple[str, str], limit: int
    ) -> list[CorpusSummary]: ...


class Corpora:
    def __init__(self, store: CorpusStore, embeddings: ChargedEmbeddings | None = None) -> None:
        self._store = store
        self._embeddings = embeddings
        self._writing: WeakValueDictionary[CorpusKey, asyncio.Lock] = WeakValueDictionary()
        self._building: dict[tuple[CorpusKey, int | None], asyncio.Task[PassageIndex]] = {}
        self._indexes: LRUCache[CorpusKey, tuple[int, PassageIndex]] = LRUCache(
            INDEX_BYTES_KEPT, getsizeof=lambda kept: kept[1].size_bytes
        )

    async def put(
        self, name: str, documents: Sequence[Document], *, shared: bool
    ) -> tuple[int, int]:
        """Stores documents; returns how many changed and the passages now."""
        identity = current_identity()
        if shared:
            require_scope(Scope.PLATFORM_ADMIN)
        _require_distinct([document.id for document in documents])
        key = CorpusKey(SHARED_OWNER if shared else identity.tenant, name)
        # Anyone who sends the same again waits, and finds it stored.
        async with self._writing.setdefault(key, asyncio.Lock()):
            return await self._put(key, documents, identity.tenant)

    async def _put(
        self, key: CorpusKey, documents: Sequence[Document], tenant: str
    ) -> tuple[int, int]:
        model = self._embeddings.model if self._embeddings else ""
        changed = await self._store.changed(key, documents, model)
        # Read and embedded before anything is stored: all of the request, or nothing.
        pieces = {each: await _cut(each, tenant) for each in changed}
        texts = [passage.searched for passages in pieces.values() for passage in passages]
        cut = await self._with_vectors(tenant, key.name, pieces, texts)
        count = await self._store.put(key, cut, model)
        if self._embeddings and texts:
            await self._embeddings.stored(texts, tenant)
        return len(changed), count

    async def delete(self, name: str, ids: Sequence[str]) -> int:
        """Returns how many documents existed."""
        return await self._store.delete(await self._find_writable(name), ids)

    async def delete_corpus(self, name: str) -> int:
        """Returns how many documents the corpus held."""
        return await self._store.delete_corpus(await self._find_writable(name))

    async def list_documents(self, name: str, after: str, limit: int) -> list[DocumentSummary]:
        key = await self._find(current_identity().tenant, name)
        return await self._store.documents(key, after, limit)

    async def list_corpora(self, after: tuple[str, str], limit: int) -> list[CorpusSummary]:
        return await self._store.list_for(current_identity().tenant, after, limit)

    async def search(self, tenant: str, name: str, query: str, top_k: int = 0) -> list[Hit]:
        """The best passages for a query; a tenant's corpus hides a shared one of its name."""
        if not query.strip() or len(query) > QUERY_CHARACTERS_MAX:
            raise InvalidSearch(f"query must have 1 to {QUERY_CHARACTERS_MAX} characters")
        if not 0 <= top_k <= TOP_K_MAX:
            raise InvalidSearch(f"top_k is {top_k}; give 0 (for {TOP_K_DEFAULT}) to {TOP_K_MAX}")
        index = await self._index(tenant, await self._find(tenant, name))
        vector = await self._query_vector(tenant, name, query, index)
        search = partial(index.search, query, top_k or TOP_K_DEFAULT, vector)
        return await THREAD.run(tenant, search)

    async def _query_vector(
        self, tenant: str, corpus: str, query: str, index: "PassageIndex"
    ) -> bytes:
        """Empty where the corpus has to be searched by words alone."""
        if not self._embeddings or not index.dimensions:
            return b""
        try:
            async with asyncio.timeout(QUERY_VECTOR_TIMEOUT_S):
                vector = await self._embeddings.of_query(query, tenant, corpus)
        except (DomainError, TimeoutError) as error:
            # Also where no one pays for a vector: words cost nothing.
            log.warning("searching by words alone: %s", str(error) or "no vector in time")
            return b""
        # A model of the same name that answers otherwise fits no stored vector.
        return vector.tobytes() if len(vector) == index.dimensions else b""

    async def _with_vectors(
        self, tenant: str, corpus: str, cut: dict[Document, list[Passage]], texts: Sequence[str]
    ) -> dict[Document, list[Passage]]:
        if not self._embeddings or not texts:
            return cut
        vectors = iter(await self._embeddings.of_passages(texts, tenant, corpus))
        return {
            document: [replace(passage, vector=next(vectors).tobytes()) for passage in passages]
            for document, passages in cut.items()
        }

    async def _find_writable(self, name: str) -> CorpusKey:
        key = await self._find(current_identity().tenant, name)
        if key.shared:
            require_scope(Scope.PLATFORM_ADMIN)
        return key

    async def _find(self, tenant: str, name: str) -> CorpusKey:
        for owner in (tenant, SHARED_OWNER):
            key = CorpusKey(owner, name)
            if await self._store.version(key) is not None:
                return key
        raise CorpusNotFound(name)

    async def _index(self, tenant: str, key: CorpusKey) -> "PassageIndex":
        """Built once per version; the least recently used ones are forgotten.

        Raises InvalidSearch.
        """
        version = await self._store.version(key)
        kept = self._indexes.get(key)
        if kept is not None and kept[0] == version:
            return kept[1]
        place = (key, version)
        # A search that gives up leaves it to the next, which finds it built, or waits as well.
        if (building := self._building.get(place)) is None:
            building = self._building[place] = asyncio.create_task(self._built(tenant, key))
            building.add_done_callback(partial(self._end_of_building, place))
        return await asyncio.shield(building)

    def _end_of_building(
        self, place: tuple[CorpusKey, int | None], ended: "asyncio.Task[PassageIndex]"
    ) -> None:
        del self._building[place]
        if not ended.cancelled():
            # Marks it retrieved, also where every search gave up.
            ended.exception()

    async def _built(self, tenant: str, key: CorpusKey) -> "PassageIndex":
        version, passages = await self._store.passages(key)
        words = None
        if sum(len(each.content) for each in passages) > INDEXED_HERE_CHARACTERS_MAX:
            words = await _indexed(tenant, key, passages)
        index = await THREAD.run(tenant, partial(_searchable, passages, words))
        if index.size_bytes <= INDEX_BYTES_KEPT:
            self._indexes[key] = (version, index)
        return index


def _searchable(passages: Sequence[Passage], words: bytes | None) -> "PassageIndex":
    from tool_adapters.corpus.index import PassageIndex

    return PassageIndex(passages, words)


async def _indexed(tenant: str, key: CorpusKey, passages: Sequence[Passage]) -> bytes:
    write = partial(json.dumps, {"texts": [each.searched for each in passages]})
    texts = (await THREAD.run(tenant, write)).encode()
    with suppress(TimeoutError):
        if (words := await INDEXERS.run(tenant, texts)) is not None:
            return words
    raise InvalidSearch(
        f"corpus {key.name!r} takes too long or too much memory to index, as texts of more than "
        f"{WORDS_MAX} different words do; split it into smaller ones"
    )


async def _cut(document: Document, tenant: str) -> list[Passage]:
    pieces = await pieces_of(document, tenant)
    return [Passage(document.id, document.title, document.uri, piece) for piece in pieces]


def _require_distinct(ids: Sequence[str]) -> None:
    if len(ids) > DOCUMENTS_PER_REQUEST_MAX:
        raise InvalidArgument(
            f"{len(ids)} documents in one request; send at most {DOCUMENTS_PER_REQUEST_MAX}"
        )
    for document_id, count in Counter(ids).items():
        if count > 1:
            raise InvalidArgument(f"document {document_id!r} appears {count} times in one request")
