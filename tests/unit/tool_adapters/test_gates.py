import asyncio
from dataclasses import replace

import pytest

from podium_kit.tool_kinds import FUNCTION
from tool_adapters.calls.bulkheads import Gates
from tool_adapters.models import (
    CodeConnection,
    Connection,
    FunctionConnection,
    HttpConnection,
    Limits,
    McpConnection,
    McpHttp,
    McpStdio,
    SideEffect,
    ToolDefinition,
)


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
