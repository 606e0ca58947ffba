"""Which tools fit words best: BM25 and, where configured, embeddings, their ranks fused.

BM25 finds the words, embeddings find what is meant by others. Their scores cannot be
compared, their ranks can (reciprocal rank fusion, Cormack et al., SIGIR 2009).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import bm25s  # type: ignore[import-untyped]

from podium_kit.rpc.errors import InvalidArgument
from tool_registry.models import ToolVersion
from tool_registry.tools.catalogue import Tools
from tool_registry.tools.embeddings import Embeddings

FUSION_CONSTANT = 60
QUERY_CHARACTERS_MAX = 2000
Ranking = Sequence[str]


@dataclass(frozen=True)
class Found:
    """A tool that fits; only the order of scores means something."""

    tool: ToolVersion
    score: float


class ToolSearch:
    """Searches current tools; an index is built once per snapshot of them."""

    def __init__(self, embeddings: Embeddings | None) -> None:
        self._embeddings = embeddings
        self._indexes: WeakKeyDictionary[Tools, WordIndex] = WeakKeyDictionary()
        self._building = asyncio.Lock()

    async def search(self, tools: Tools, query: str) -> tuple[list[Found], bool]:
        """Every tool that fits, best first, and whether embeddings counted."""
        if not query.strip() or len(query) > QUERY_CHARACTERS_MAX:
            raise InvalidArgument(f"query must hold 1 to {QUERY_CHARACTERS_MAX} characters")
        rankings = [(await self._index(tools)).rank(query)]
        by_meaning = None
        if self._embeddings is not None:
            by_meaning = await self._embeddings.rank(tools.current, query)
            rankings += [by_meaning] if by_meaning is not None else []
        versions = {tool.spec.name: tool for tool in tools.current}
        found = [Found(versions[name], score) for name, score in fused(rankings)]
        return found, by_meaning is not None

    async def _index(self, tools: Tools) -> "WordIndex":
        async with self._building:
            if tools not in self._indexes:
                # Ten thousand tools take a second, which others need not wait.
                self._indexes[tools] = await asyncio.to_thread(WordIndex, tools.current)
        return self._indexes[tools]


class WordIndex:
    """BM25 over names, descriptions and tags, by bm25s (Lu 2024, arXiv 2407.03618)."""

    def __init__(self, tools: Sequence[ToolVersion]) -> None:
        self._names = [tool.spec.name for tool in tools]
        self._bm25 = bm25s.BM25()
        if tools:
            texts = [searched_text(tool) for tool in tools]
            self._bm25.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def rank(self, query: str) -> Ranking:
        """Names of the tools that share a word with the query, best first."""
        words = bm25s.tokenize([_words(query)], return_ids=False, show_progress=False)
        if not self._names or not words[0]:
            return []
        numbers, scores = self._bm25.retrieve(words, k=len(self._names), show_progress=False)
        pairs = zip(numbers[0], scores[0], strict=True)
        return [self._names[number] for number, score in pairs if score > 0]


def searched_text(tool: ToolVersion) -> str:
    """What is known of a tool in words, those of its name apart."""
    spec = tool.spec
    about = [model.description for model in spec.models]
    return "\n".join([_words(spec.name), spec.description, *sorted(spec.tags), *about])


def fused(rankings: Sequence[Ranking]) -> list[tuple[str, float]]:
    """Names by their summed reciprocal ranks, best first; ties in name order."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, name in enumerate(ranking, start=1):
            scores[name] = scores.get(name, 0.0) + 1 / (FUSION_CONSTANT + rank)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def _words(text: str) -> str:
    return text.replace("_", " ").replace("-", " ")
