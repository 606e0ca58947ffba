"""Search of tools: by meaning, and by the words themselves.

Vectors find what is meant by other words, BM25 finds names and rare words. A tool is as close to a
query as the closest of its texts: what it does, or a task it is stated to be right for. It is as
close to a task as to the closest of those it answered before for the same tenant, too.
"""

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from podium_kit.limits.concurrency import FairThread
from podium_kit.models.embeddings import Embeddings, EmbeddingsUnavailable
from podium_kit.rpc.errors import InvalidArgument
from tool_registry.models import PLATFORM, ToolSpec, ToolVersion
from tool_registry.ranking.experience import Answered
from tool_registry.tools.catalogue import Tools

CHARACTERS_MAX = 4000
QUERY_CHARACTERS_MAX = 2000
VECTORS_KEPT = 100_000
# What an episode's start waits for embeddings; without them tools are ranked by words.
PATIENCE_S = 3.0


def texts_of(spec: ToolSpec) -> tuple[str, ...]:
    """The description and parameters, then the tasks that the tool is right for."""
    about = [
        separated(spec.name),
        spec.description,
        *sorted(spec.tags),
        *(model.description for model in spec.models),
        *_arguments(spec.parameters_schema),
    ]
    return "\n".join(about)[:CHARACTERS_MAX], *spec.example_tasks


def separated(text: str) -> str:
    return text.replace("_", " ").replace("-", " ")


def _arguments(schema: str) -> list[str]:
    properties = json.loads(schema or "{}").get("properties", {})
    described = (
        (name, part.get("description", "") if isinstance(part, dict) else "")
        for name, part in properties.items()
    )
    return [f"{separated(name)} {text}".strip() for name, text in described]


if TYPE_CHECKING:
    from podium_kit.models.openai_embeddings import Vector
    from tool_registry.ranking.index import ToolIndex

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RankedTool:
    """A tool that fits; only the order of scores means something."""

    tool: ToolVersion
    score: float


class ToolSearch:
    """Searches current tools; an index is built once per snapshot of them."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._vectors: LRUCache[str, Vector] = LRUCache(VECTORS_KEPT)
        self._building: WeakKeyDictionary[Tools, asyncio.Task[ToolIndex | None]] = (
            WeakKeyDictionary()
        )
        self._words: WeakKeyDictionary[Tools, ToolIndex] = WeakKeyDictionary()
        self._indexing = FairThread()

    async def search(self, tools: Tools, query: str) -> tuple[list[RankedTool], bool]:
        """Every tool that fits, best first, and whether embeddings counted."""
        if not query.strip() or len(query) > QUERY_CHARACTERS_MAX:
            raise InvalidArgument(f"query must hold 1 to {QUERY_CHARACTERS_MAX} characters")
        index = await self._index(tools)
        vector = await self._vector(index, query)
        found = [RankedTool(tools.current[at], score) for at, score in index.fitting(query, vector)]
        return found, vector is not None

    async def rank(
        self, tools: Tools, task: str, past: Sequence[Answered] = ()
    ) -> list[ToolVersion]:
        """Every current tool, the one that fits the task best first; past tasks count, too."""
        query = _query(task)
        index = await self._index(tools)
        vector = await self._vector(index, query)
        closest = await self._closest(past, vector)
        import numpy as np

        learnt = np.array([closest.get(tool.spec.name, 0.0) for tool in tools.current])
        return [tools.current[at] for at in index.ranked(query, vector, learnt)]

    async def _closest(self, past: Sequence[Answered], vector: "Vector | None") -> dict[str, float]:
        """Returns for each tool the similarity of the closest task that it answered."""
        used = [each for each in past if each.tools]
        if vector is None or not used:
            return {}
        try:
            async with asyncio.timeout(PATIENCE_S):
                vectors = await self._vectors_of([_query(each.task) for each in used])
        except (EmbeddingsUnavailable, TimeoutError) as error:
            log.warning("tools are ranked without past tasks: %r", error)
            return {}
        import numpy as np

        found: dict[str, float] = {}
        for answered, like in zip(used, np.stack(vectors) @ vector, strict=True):
            for tool in answered.tools:
                found[tool] = max(float(like), found.get(tool, 0.0))
        return found

    async def _vectors_of(self, texts: Sequence[str]) -> "list[Vector]":
        known = {text: self._vectors.get(text) for text in texts}
        missing = [text for text, vector in known.items() if vector is None]
        made = dict(zip(missing, await self._embeddings.of(missing), strict=True))
        self._vectors.update(made)
        all_known = {text: vector for text, vector in known.items() if vector is not None} | made
        return [all_known[text] for text in texts]

    async def _vector(self, index: "ToolIndex", query: str) -> "Vector | None":
        if not index.has_vectors:
            return None
        try:
            async with asyncio.timeout(PATIENCE_S):
                [vector] = await self._embeddings.of([query])
        except (EmbeddingsUnavailable, TimeoutError) as error:
            log.warning("searching by words only: %r", error)
            return None
        return vector

    async def _index(self, tools: Tools) -> "ToolIndex":
        """The index of all texts, or that of the words alone while vectors are not there."""
        building = self._building.get(tools)
        if building is None or _is_lost(building):
            building = self._building[tools] = asyncio.create_task(self._with_vectors(tools))
        # An episode that starts does not wait for a model server that stalls.
        await asyncio.wait([building], timeout=PATIENCE_S)
        built = building.result() if building.done() else None
        return built or await self._of_words(tools)

    async def _with_vectors(self, tools: Tools) -> "ToolIndex | None":
        texts = [texts_of(tool.spec) for tool in tools.current]
        try:
            vectors = iter(await self._vectors_of([text for own in texts for text in own]))
        except EmbeddingsUnavailable as error:
            log.warning("tools are searched by words only: %s", error.message)
            return None
        rows = [[next(vectors) for _ in own] for own in texts]
        # Ten thousand tools take a second, which others need not wait.
        return await self._indexing.run(_tenant(tools), partial(_tool_index, texts, rows))

    async def _of_words(self, tools: Tools) -> "ToolIndex":
        def index() -> "ToolIndex":
            if tools not in self._words:
                texts = [texts_of(tool.spec) for tool in tools.current]
                self._words[tools] = _tool_index(texts, None)
            return self._words[tools]

        return await self._indexing.run(_tenant(tools), index)


def _tool_index(
    texts: "Sequence[Sequence[str]]", vectors: "Sequence[Sequence[Vector]] | None"
) -> "ToolIndex":
    from tool_registry.ranking.index import ToolIndex

    return ToolIndex(texts, vectors)


def _tenant(tools: Tools) -> str:
    return next((tool.owner for tool in tools.current if tool.owner != PLATFORM), PLATFORM)


def _query(task: str) -> str:
    """A long text states its purpose at the beginning or at the end."""
    half = QUERY_CHARACTERS_MAX // 2
    return task if len(task) <= 2 * half else f"{task[:half]}\n{task[-half:]}"


def _is_lost(building: "asyncio.Task[ToolIndex | None]") -> bool:
    if not building.done():
        return False
    return building.cancelled() or building.exception() is not None or building.result() is None
