"""Which tools fit words or a task best: by meaning, and by the words themselves.

Vectors find what is meant by other words, BM25 finds names and rare words. A tool is as close to a
query as the closest of its texts: what it does, or a task it is stated to be right for.
"""

import asyncio
import logging
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from podium_kit.embeddings import Embeddings, EmbeddingsUnavailable, Vector
from podium_kit.rpc.errors import InvalidArgument
from tool_registry.models import ToolVersion
from tool_registry.ranking.index import ToolIndex
from tool_registry.ranking.texts import texts_of
from tool_registry.tools.catalogue import Tools

log = logging.getLogger(__name__)

QUERY_CHARACTERS_MAX = 2000
VECTORS_KEPT = 100_000


@dataclass(frozen=True)
class Found:
    """A tool that fits; only the order of scores means something."""

    tool: ToolVersion
    score: float


class ToolSearch:
    """Searches current tools; an index is built once per snapshot of them."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._vectors: LRUCache[str, Vector] = LRUCache(VECTORS_KEPT)
        self._indexes: WeakKeyDictionary[Tools, ToolIndex] = WeakKeyDictionary()
        self._building = asyncio.Lock()

    async def search(self, tools: Tools, query: str) -> tuple[list[Found], bool]:
        """Every tool that fits, best first, and whether embeddings counted."""
        if not query.strip() or len(query) > QUERY_CHARACTERS_MAX:
            raise InvalidArgument(f"query must hold 1 to {QUERY_CHARACTERS_MAX} characters")
        index = await self._index(tools)
        vector = await self._vector(index, query)
        found = [Found(tools.current[at], score) for at, score in index.fitting(query, vector)]
        return found, vector is not None

    async def rank(self, tools: Tools, task: str) -> list[ToolVersion]:
        """Every current tool, the one that fits the task best first."""
        # The beginning of a long text says what is wanted, or its end does.
        half = QUERY_CHARACTERS_MAX // 2
        query = task if len(task) <= 2 * half else f"{task[:half]}\n{task[-half:]}"
        index = await self._index(tools)
        vector = await self._vector(index, query)
        return [tools.current[at] for at in index.ranked(query, vector)]

    async def _vector(self, index: ToolIndex, query: str) -> Vector | None:
        """The query's, where the index has vectors to compare it with."""
        if not index.has_vectors:
            return None
        try:
            [vector] = await self._embeddings.of([query])
        except EmbeddingsUnavailable as error:
            log.warning("searching by words only: %s", error.message)
            return None
        return vector

    async def _index(self, tools: Tools) -> ToolIndex:
        async with self._building:
            before = self._indexes.get(tools)
            if before is not None and before.has_vectors:
                return before
            built = await self._built(tools, before)
            self._indexes[tools] = built
            return built

    async def _built(self, tools: Tools, before: ToolIndex | None) -> ToolIndex:
        """Ten thousand tools take two seconds, which others need not wait."""
        texts = [texts_of(tool.spec) for tool in tools.current]
        missing = [
            text
            for text in dict.fromkeys(text for own in texts for text in own)
            if text not in self._vectors
        ]
        try:
            self._vectors.update(zip(missing, await self._embeddings.of(missing), strict=True))
        except EmbeddingsUnavailable as error:
            log.warning("tools are searched by words only: %s", error.message)
            if before is not None:
                return before
            return await asyncio.to_thread(ToolIndex, texts, None)
        vectors = [[self._vectors[text] for text in own] for own in texts]
        return await asyncio.to_thread(ToolIndex, texts, vectors)
