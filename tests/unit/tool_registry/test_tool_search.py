"""Embeddings that stall, or of more texts than are kept, leave no episode without its tools."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from cachetools import LRUCache

from podium_kit.models.openai_embeddings import Vector
from tool_registry.ranking import search
from tool_registry.ranking.experience import Answered
from tool_registry.ranking.search import ToolSearch
from tool_registry.ranking.static_embeddings import StaticEmbeddings
from tool_registry.tools.catalogue import Tools
from unit.tool_registry.test_best_tools import NAMES, VERSIONS

TOOLS = Tools({name: (VERSIONS[name],) for name in NAMES})


class Stalling:
    """Answers once it may: everything is like the tool of music."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def of(self, texts: Sequence[str]) -> list[Vector]:
        await self.may_answer.wait()
        return [np.eye(2, dtype=np.float32)[int("music" in text or "?" in text)] for text in texts]


async def best(tools: ToolSearch, query: str) -> str:
    return (await tools.rank(TOOLS, query))[0].spec.name


async def test_a_model_server_that_stalls_is_not_waited_for_and_counts_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "PATIENCE_S", 0.05)
    embeddings = Stalling()
    tools = ToolSearch(embeddings)
    assert await best(tools, "units?") == "units"
    embeddings.may_answer.set()
    async with asyncio.timeout(30):
        while await best(tools, "what?") != "music":
            await asyncio.sleep(0.01)


async def test_more_texts_than_are_kept_are_compared_all_the_same() -> None:
    embeddings = Stalling()
    embeddings.may_answer.set()
    tools = ToolSearch(embeddings)
    tools._vectors = LRUCache(2)
    assert await best(tools, "what?") == "music"


async def test_a_tool_is_as_close_to_a_task_as_to_one_that_it_answered() -> None:
    search = ToolSearch(StaticEmbeddings())
    task = "Who has the keys of the boathouse?"
    past = [
        Answered("Who has the keys of the garage?", frozenset({"units"})),
        Answered("Who has the keys of the boathouse?", frozenset()),
        Answered("How long is the coast of Norway?", frozenset({"music"})),
    ]
    assert (await search.rank(TOOLS, task, past))[0].spec.name == "units"
    assert (await search.rank(TOOLS, task, past[1:]))[0].spec.name != "units"
