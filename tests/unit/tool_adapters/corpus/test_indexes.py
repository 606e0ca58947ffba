"""A corpus is loaded and indexed once per version, whatever searches it meanwhile."""

import asyncio
from typing import Any

from tool_adapters.corpus.models import CorpusKey, Hit, Passage, Piece
from tool_adapters.corpus.service import Corpora


class CountingStore:
    """One corpus of one passage; counts how often it is loaded."""

    def __init__(self) -> None:
        self.loads = 0

    async def version(self, key: CorpusKey) -> int | None:
        await asyncio.sleep(0)
        return 1

    async def passages(self, key: CorpusKey) -> tuple[int, list[Passage]]:
        self.loads += 1
        await asyncio.sleep(0)
        return 1, [Passage("leave", "Leave", "", Piece("27 days of leave"))]


def search(corpora: Corpora) -> "asyncio.Task[list[Hit]]":
    return asyncio.create_task(corpora.search("acme", "handbook", "leave"))


async def test_searches_at_the_same_time_load_a_corpus_once() -> None:
    store: Any = CountingStore()
    corpora = Corpora(store)
    for _ in range(2):
        found = await asyncio.gather(*(search(corpora) for _ in range(5)))
        assert [len(hits) for hits in found] == [1] * 5
    assert store.loads == 1


async def test_a_cancelled_search_leaves_the_index_to_others() -> None:
    store: Any = CountingStore()
    corpora = Corpora(store)
    await search(corpora)
    for steps in range(6):
        cut_off = search(corpora)
        for _ in range(steps):
            await asyncio.sleep(0)
        cut_off.cancel()
        await asyncio.wait({cut_off})
    await search(corpora)
    assert store.loads == 1
