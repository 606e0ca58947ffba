import asyncio
from dataclasses import replace

import pytest

from callers import make_identity
from openai_server import OpenAiServer
from podium_kit.models.chat_parameters import ChatParameters
from podium_kit.models.model_families import ModelFamiliesFile
from podium_kit.rpc.identity import acting_as
from podium_kit.tool_kinds import FUNCTION, LLM
from tool_adapters.adapter import Output, ToolCall
from tool_adapters.calls.bulkheads import Breaker, Gates
from tool_adapters.http.client import HttpClient
from tool_adapters.llm.adapter import LlmAdapter
from tool_adapters.llm.model_parameters import ModelParameters
from tool_adapters.llm.own_servers import OwnServers
from tool_adapters.llm.prompts import Prompts
from tool_adapters.llm.providers import Providers
from tool_adapters.models import (
    CodeConnection,
    Connection,
    FunctionConnection,
    HttpConnection,
    Limits,
    LlmApi,
    LlmConnection,
    LlmModel,
    McpConnection,
    McpHttp,
    McpStdio,
    SideEffect,
    ToolDefinition,
)
from tool_adapters.network_guard import NetworkGuard
from tool_adapters.secret_store import MountedSecrets


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def opened() -> tuple[Breaker, Clock]:
    clock = Clock()
    breaker = Breaker(failures_to_open=3, cool_down_s=10, clock=clock)
    for _ in range(3):
        assert breaker.lets_pass()
        breaker.record(unwell=True)
    return breaker, clock


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    breaker, _ = opened()
    assert not breaker.lets_pass()
    assert breaker.closes_in_s == 10


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = Breaker(failures_to_open=2)
    for unwell in (True, False, True):
        breaker.record(unwell=unwell)
    assert breaker.lets_pass()


def test_after_the_cool_down_one_probe_passes() -> None:
    breaker, clock = opened()
    clock.now = 10
    assert breaker.lets_pass()
    assert not breaker.lets_pass()


def test_a_successful_probe_closes_it() -> None:
    breaker, clock = opened()
    clock.now = 10
    breaker.lets_pass()
    breaker.record(unwell=False)
    assert breaker.lets_pass()
    assert breaker.lets_pass()


def test_a_probe_that_finds_it_unwell_opens_it_for_another_cool_down() -> None:
    breaker, clock = opened()
    clock.now = 10
    breaker.lets_pass()
    breaker.record(unwell=True)
    clock.now = 19
    assert not breaker.lets_pass()
    clock.now = 20
    assert breaker.lets_pass()


def test_an_abandoned_probe_lets_the_next_one_pass() -> None:
    breaker, clock = opened()
    clock.now = 10
    breaker.lets_pass()
    breaker.abandon()
    assert breaker.lets_pass()


def tool(name: str, connection: Connection) -> ToolDefinition:
    return ToolDefinition(
        name, 1, FUNCTION, {}, None, connection, SideEffect.PURE, Limits(max_concurrency=2)
    )


@pytest.mark.parametrize(
    "connection",
    [
        FunctionConnection("query_database"),
        CodeConnection(),
        McpConnection("create", McpStdio("board")),
    ],
)
def test_tools_of_one_resource_share_its_places(connection: Connection) -> None:
    gates = Gates()
    places = {
        id(gates.of(tenant, tool(f"{tenant}-{number}", replace(connection)), "").places)
        for tenant in ("evil", "bank")
        for number in range(10)
    }
    assert len(places) == 1


async def test_one_tenant_leaves_a_place_of_the_operators_function_to_the_others() -> None:
    gates = Gates()
    shared = tool("database", FunctionConnection("query_database"))
    places = gates.of("evil", shared, "").places
    await places.acquire("evil")
    waiting = asyncio.create_task(places.acquire("evil"))
    await asyncio.sleep(0)
    assert not waiting.done()
    await gates.of("bank", shared, "").places.acquire("bank")
    places.release("evil")
    await waiting


async def test_one_tenant_may_have_every_place_of_a_tool_of_its_own() -> None:
    own = Gates().of("acme", tool("own", HttpConnection("GET", "https://api.example/")), "").places
    await own.acquire("acme")
    await own.acquire("acme")
    assert own.is_exhausted


@pytest.mark.parametrize(
    "connection",
    [
        HttpConnection("GET", "https://api.example/"),
        McpConnection("create", McpHttp("https://a.example/mcp")),
    ],
)
def test_tools_of_their_owners_servers_have_places_of_their_own(connection: Connection) -> None:
    gates = Gates()
    first, second = (gates.of("acme", tool(name, connection), "") for name in ("a", "b"))
    assert first.places is not second.places


def test_what_breaks_for_one_tool_is_well_for_another() -> None:
    gates = Gates()
    connection = FunctionConnection("query_database")
    first, second = (gates.of("acme", tool(name, connection), "") for name in ("a", "b"))
    assert first.breaker is not second.breaker


def operators(name: str, version: int, places: int) -> ToolDefinition:
    own = replace(tool(name, FunctionConnection("query_database")), version=version, shared=True)
    return replace(own, limits=Limits(max_concurrency=places))


async def test_tools_with_other_limits_share_the_places_of_the_strictest() -> None:
    gates = Gates()
    for number, places in enumerate((8, 3, 16)):
        gates.of("acme", operators(f"database{number}", 1, places), "")
    mine = tool("mine", FunctionConnection("query_database"))
    mine = replace(mine, limits=Limits(max_concurrency=16))
    shared = gates.of("evil", mine, "").places
    waiting = [asyncio.create_task(shared.acquire(tenant)) for tenant in "abcdef"]
    await asyncio.sleep(0)
    assert sum(task.done() for task in waiting) == 3
    # A newer version of the strictest has more.
    for version in (2, 1):
        gates.of("acme", operators("database1", version, 5 if version == 2 else 3), "")
    await asyncio.sleep(0)
    assert sum(task.done() for task in waiting) == 5
    shared.release("a")
    await asyncio.gather(*waiting)
    gates.of("acme", operators("database1", 3, 2), "")
    for tenant in "bcde":
        assert shared.is_exhausted
        shared.release(tenant)
    await shared.acquire("x")


async def test_no_tenants_limit_is_that_of_its_neighbours() -> None:
    gates = Gates()
    for tenant, most in (("evil", 1), ("bank", 8)):
        of_tenant = tool(f"{tenant}-units", FunctionConnection("convert_units"))
        limited = replace(of_tenant, limits=Limits(max_concurrency=most))
        places = gates.of(tenant, limited, "").places
    waiting = [asyncio.create_task(places.acquire("bank")) for _ in range(8)]
    await asyncio.sleep(0)
    # One is left to the others.
    assert sum(task.done() for task in waiting) == 7
    waiting[-1].cancel()


async def test_a_limit_that_the_operator_lowers_reaches_tools_of_tenants() -> None:
    now_s = 1_000.0
    gates = Gates(lambda: now_s)
    gates.of("acme", operators("database", 1, 8), "")
    mine = tool("mine", FunctionConnection("query_database"))
    for at_s, limit in ((1_000.0, 8), (1_060.0, 2), (1_200.0, 2)):
        now_s = at_s
        limited = replace(mine, limits=Limits(max_concurrency=limit))
        places = gates.of("evil", limited, "").places
    await places.acquire("a")
    await places.acquire("b")
    assert places.is_exhausted


def model(base_url: str, api: LlmApi = LlmApi.OPENAI_CHAT) -> LlmModel:
    return LlmModel("eyes", "gpt", base_url, api)


async def test_a_place_at_a_provider_goes_to_the_tenant_that_has_the_fewest() -> None:
    providers, served, ends = Providers(2), [], asyncio.Queue[None]()

    async def ask(tenant: str, base_url: str = "https://api.example.com/v1") -> None:
        async with providers.slot(tenant, model(base_url)):
            served.append(tenant)
            await ends.get()

    # Whichever way a tenant writes the provider's address, its places are the same.
    asked = [asyncio.create_task(ask("busy")) for _ in range(20)]
    asked.append(asyncio.create_task(ask("quiet", "https://API.example.com/v2")))
    asked.append(asyncio.create_task(ask("elsewhere", "https://other.example.com/v1")))
    await asyncio.sleep(0)
    assert served == ["busy", "busy", "elsewhere"]
    for _ in asked:
        ends.put_nowait(None)
    await asyncio.gather(*asked)
    # The first place that became free, though nineteen of the other tenant had asked before.
    assert served[3] == "quiet"
    # Hosts that no one asks any more are not kept.
    assert not providers._places


class NothingLearnt:
    async def find(self, owner: str, model: LlmModel) -> None:
        return None

    async def store(self, owner: str, model: LlmModel, learnt: ChatParameters) -> None:
        raise AssertionError(f"{model.model} rejected nothing")


@pytest.mark.parametrize("api", [LlmApi.OPENAI_CHAT, LlmApi.OPENAI_EMBEDDINGS])
async def test_no_request_is_sent_without_a_place(api: LlmApi) -> None:
    providers, guard = Providers(1), NetworkGuard(allow_private=True)
    call = ToolCall("key", "e1", "eyes", 1, {"input": "42"}, "6 * 7?", "", 0, "acme", "eyes")
    with OpenAiServer(models=("gpt",)) as server, acting_as(make_identity("acme")):
        asked = model(server.base_url, api)
        tool = ToolDefinition(*("eyes", 1, LLM, {}, None, LlmConnection((asked,)), SideEffect.PURE))
        async with HttpClient(guard) as client:
            parameters = ModelParameters(ModelFamiliesFile(), NothingLearnt())
            secrets = MountedSecrets(None, {})
            adapter = LlmAdapter(
                client, secrets, Prompts(), providers, parameters, own_servers=OwnServers(())
            )
            async with providers.slot("acme", asked):
                answering = asyncio.create_task(adapter.invoke(call, tool))
                (places,) = providers._places.values()
                while not places._waiting and not answering.done():
                    await asyncio.sleep(0)
                assert not server.requests
            assert isinstance((await answering).outcome, Output)
    assert len(server.requests) == 1
