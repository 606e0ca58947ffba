"""Putting, deleting, listing and searching documents for one caller."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Protocol

from rpckit.errors import InvalidArgument
from rpckit.identity import Scope, current_identity, require_scope
from tool_adapters.corpus.errors import CorpusNotFound, InvalidSearch
from tool_adapters.corpus.index import PassageIndex
from tool_adapters.corpus.models import (
    SHARED_OWNER,
    CorpusKey,
    CorpusSummary,
    Document,
    Hit,
    Passage,
)

DOCUMENTS_PER_REQUEST_MAX = 1000
QUERY_CHARACTERS_MAX = 2000
TOP_K_DEFAULT = 5
TOP_K_MAX = 50
INDEXES_KEPT = 32


class CorpusStore(Protocol):
    """What the service needs of a database; see store_postgres."""

    async def put(self, key: CorpusKey, documents: Sequence[Document]) -> tuple[int, int]: ...
    async def delete(self, key: CorpusKey, ids: Sequence[str]) -> int: ...
    async def version(self, key: CorpusKey) -> int | None: ...
    async def passages(self, key: CorpusKey) -> tuple[int, list[Passage]]: ...
    async def list_for(
        self, tenant: str, after: tuple[str, str], limit: int
    ) -> list[CorpusSummary]: ...


class Corpora:
    """The corpora of the caller's tenant and of the platform."""

    def __init__(self, store: CorpusStore) -> None:
        self._store = store
        self._indexes: OrderedDict[CorpusKey, tuple[int, PassageIndex]] = OrderedDict()

    async def put(
        self, name: str, documents: Sequence[Document], *, shared: bool
    ) -> tuple[int, int]:
        """Stores documents; returns how many changed and the passages now."""
        identity = require_scope(Scope.PLATFORM_ADMIN if shared else Scope.TOOLS_WRITE)
        _require_distinct([document.id for document in documents])
        owner = SHARED_OWNER if shared else identity.tenant
        return await self._store.put(CorpusKey(owner, name), documents)

    async def delete(self, name: str, ids: Sequence[str]) -> int:
        """Deletes documents; returns how many were there."""
        identity = require_scope(Scope.TOOLS_WRITE)
        key = await self._find(identity.tenant, name)
        if key.shared:
            require_scope(Scope.PLATFORM_ADMIN)
        return await self._store.delete(key, ids)

    async def list_corpora(self, after: tuple[str, str], limit: int) -> list[CorpusSummary]:
        """Corpora the caller can search, in name order."""
        return await self._store.list_for(current_identity().tenant, after, limit)

    async def search(self, tenant: str, name: str, query: str, top_k: int = 0) -> list[Hit]:
        """The best passages for a query; a tenant's corpus hides a shared one of its name."""
        if not query.strip() or len(query) > QUERY_CHARACTERS_MAX:
            raise InvalidSearch(f"query must have 1 to {QUERY_CHARACTERS_MAX} characters")
        if not 0 <= top_k <= TOP_K_MAX:
            raise InvalidSearch(f"top_k is {top_k}; give 0 (for {TOP_K_DEFAULT}) to {TOP_K_MAX}")
        index = await self._index(await self._find(tenant, name))
        return await asyncio.to_thread(index.search, query, top_k or TOP_K_DEFAULT)

    async def _find(self, tenant: str, name: str) -> CorpusKey:
        for owner in (tenant, SHARED_OWNER):
            key = CorpusKey(owner, name)
            if await self._store.version(key) is not None:
                return key
        raise CorpusNotFound(name)

    async def _index(self, key: CorpusKey) -> PassageIndex:
        """Built once per version; the least recently used ones are forgotten."""
        version, index = self._indexes.pop(key, (-1, PassageIndex([])))
        if version != await self._store.version(key):
            version, passages = await self._store.passages(key)
            index = await asyncio.to_thread(PassageIndex, passages)
        self._indexes[key] = (version, index)
        while len(self._indexes) > INDEXES_KEPT:
            self._indexes.popitem(last=False)
        return index


def _require_distinct(ids: Sequence[str]) -> None:
    if len(ids) > DOCUMENTS_PER_REQUEST_MAX:
        raise InvalidArgument(
            f"{len(ids)} documents in one request; send at most {DOCUMENTS_PER_REQUEST_MAX}"
        )
    for document_id, count in Counter(ids).items():
        if count > 1:
            raise InvalidArgument(f"document {document_id!r} appears {count} times in one request")
