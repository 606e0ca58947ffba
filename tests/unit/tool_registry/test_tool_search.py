import asyncio
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import grpc
import numpy as np
import pytest
from cachetools import LRUCache
from hypothesis import given
from hypothesis import strategies as st

from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import episode_service_pb2_grpc as rpc
from podium_kit.metering import Dimension, LatencyHistogram, Quantity
from podium_kit.models.openai_embeddings import Vector
from podium_kit.models.static_embeddings import StaticEmbeddings
from podium_kit.rpc.errors import NotFound, PermissionDenied
from podium_kit.rpc.pages import PAGE_BYTES_MAX
from podium_kit.rpc.status import status_of
from tool_registry.history.clients import EpisodeHistory
from tool_registry.models import Facts, Price, PriceComponent
from tool_registry.ranking import search
from tool_registry.ranking.experience import Answered, Experience
from tool_registry.ranking.index import ToolIndex
from tool_registry.ranking.search import ToolSearch
from tool_registry.tools.catalogue import Tools
from tool_registry.tools.listing import MAXIMUM_PAGE, take_page
from tool_registry.toolsets.terms import cost_text
from unit.tool_registry.test_best_tools import NAMES, VERSIONS

TOOLS = Tools({name: (VERSIONS[name],) for name in NAMES})


class Stalling:
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


KIB = 1024


def pages(sizes: list[int]) -> Iterator[list[int]]:
    items, token = list(enumerate(sizes)), ""
    while True:
        page, token = take_page(
            items, lambda item: f"{item[0]:09}", MAXIMUM_PAGE, token, lambda item: item[1]
        )
        yield [size for _, size in page]
        if not token:
            return


def test_500_tools_of_64_kib_are_eight_pages() -> None:
    found = list(pages([64 * KIB] * 500))
    assert [len(page) for page in found] == [64] * 7 + [52]


@given(st.lists(st.integers(0, 2 * PAGE_BYTES_MAX), max_size=40))
def test_every_page_fits_or_is_one_item(sizes: list[int]) -> None:
    found = list(pages(sizes))
    assert [size for page in found for size in page] == sizes
    assert all(sum(page) <= PAGE_BYTES_MAX or len(page) == 1 for page in found)


def price_of(a_token: str) -> Price:
    return Price("USD", (PriceComponent(Dimension.INPUT_FRESH, Decimal(a_token), Decimal(1)),))


def facts_of(tokens: int) -> Facts:
    used = (Quantity(Dimension.INPUT_FRESH, Decimal(tokens)),) if tokens else ()
    return Facts("expert", "", 2, LatencyHistogram.of([1.0, 1.0]), 1.0, used)


def test_a_mean_cost_is_told_where_calls_cost_something() -> None:
    assert cost_text(price_of("0.000001"), facts_of(2_000)) == "$0.001 a call"


def test_no_cost_is_made_up_where_no_call_cost_anything() -> None:
    assert cost_text(price_of("0"), facts_of(2_000)) == ""
    # All of them failed before they used anything; the next will not be for nothing.
    assert cost_text(price_of("0.000001"), facts_of(0)) == ""


TEXTS = [("adds numbers",), ("draws pictures", "paint a house"), ("tells the time",)]


def towards(*places: int) -> Vector:
    vector = np.zeros(4, dtype=np.float32)
    vector[list(places)] = 1 / np.sqrt(len(places))
    return vector


VECTORS = [[towards(0)], [towards(1), towards(2)], [towards(3)]]


def numbers(index: ToolIndex, query: str, vector: Vector | None = None) -> list[int]:
    return [number for number, _ in index.fitting(query, vector)]


def test_words_find_and_common_words_do_not() -> None:
    index = ToolIndex(TEXTS, None)
    assert numbers(index, "which pictures?") == [1]
    assert numbers(index, "paint") == [1]
    assert numbers(index, "the of") == numbers(index, "xyzzy") == numbers(index, "?!") == []


def test_the_closest_of_a_tool_s_texts_counts() -> None:
    index = ToolIndex(TEXTS, VECTORS)
    assert numbers(index, "xyzzy", towards(2)) == [1]
    assert index.ranked("xyzzy", towards(3))[0] == 2


def test_a_word_breaks_a_tie_of_meaning() -> None:
    index = ToolIndex(TEXTS, VECTORS)
    between = towards(0, 3)
    assert index.ranked("xyzzy", between)[:2] == [0, 2]
    assert index.ranked("time", between)[:2] == [2, 0]


def test_what_was_learnt_of_a_tool_counts_as_one_of_its_texts() -> None:
    index = ToolIndex(TEXTS, VECTORS)
    assert index.ranked("xyzzy", towards(3), np.array([0.0, 0.5, 0.0]))[0] == 2
    assert index.ranked("xyzzy", towards(0, 3), np.array([0.0, 0.9, 0.0]))[0] == 1


@pytest.mark.parametrize("texts", [[], [("?",)], [("the",), ("of",)]])
def test_without_words_nothing_is_found(texts: list[tuple[str]]) -> None:
    index = ToolIndex(texts, None)
    assert numbers(index, "the sum") == []
    assert index.ranked("the sum", None) == list(range(len(texts)))


FIRST = {"e1": Answered("What is 2 + 2?", frozenset({"calculator"}))}
SECOND = {"e2": Answered("Who is Ada?", frozenset({"search"}))}


class Episodes:
    def __init__(self, *answers: Mapping[str, Answered] | Exception) -> None:
        self._answers = list(answers)
        self.known: list[Mapping[str, Answered]] = []

    async def answered(self, known: Mapping[str, Answered]) -> dict[str, Answered]:
        self.known.append(known)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)


async def read(experience: Experience, tenant: str = "acme") -> list[Answered]:
    experience.of(tenant)
    for _ in range(10):
        await asyncio.sleep(0)
    return list(experience._tenants[tenant].episodes.values())


async def test_nobody_waits_and_what_was_read_is_kept_until_it_is_old() -> None:
    episodes = Episodes(FIRST)
    experience = Experience(episodes, lifetime_s=3600)
    assert experience.of("acme") == ()
    assert await read(experience) == [*FIRST.values()]
    assert await read(experience) == [*FIRST.values()]
    assert len(episodes.known) == 1


async def test_a_tenant_has_its_own() -> None:
    experience = Experience(Episodes(FIRST, SECOND), lifetime_s=3600)
    assert await read(experience, "acme") == [*FIRST.values()]
    assert await read(experience, "bolt") == [*SECOND.values()]


async def test_the_next_reading_knows_the_last_and_an_episode_that_is_gone_is_forgotten() -> None:
    episodes = Episodes(FIRST, SECOND)
    experience = Experience(episodes, lifetime_s=0)
    await read(experience)
    assert await read(experience) == [*SECOND.values()]
    assert episodes.known == [{}, FIRST]


async def test_what_cannot_be_read_leaves_what_was_known() -> None:
    experience = Experience(Episodes(FIRST, PermissionDenied("not yours")), lifetime_s=0)
    await read(experience)
    assert await read(experience) == [*FIRST.values()]


class Forgetful(rpc.EpisodeServiceServicer):
    async def GetTrajectory(
        self, request: pb.GetTrajectoryRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetTrajectoryResponse:
        code, message, trailers = status_of(NotFound(f"there is no episode {request.episode_id}"))
        await context.abort(code, message, trailers)
        raise AssertionError


async def test_an_episode_that_was_forgotten_wrote_nothing() -> None:
    server = grpc.aio.server()
    rpc.add_EpisodeServiceServicer_to_server(Forgetful(), server)  # type: ignore[abstract]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        # Else the list of all proposals would be an error for ever.
        assert await EpisodeHistory(channel).written("e", "writer") == ""
    await server.stop(None)
