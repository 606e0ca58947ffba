from typing import Any

import grpc
import pytest

from integration.tool_registry.builders import NO_ARGUMENTS, make_price, make_spec
from integration.tool_registry.running_registry import Caller, RunningRegistry, rejected
from podium.registry.v1 import policy_pb2, tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb

STDIO = tool_pb2.McpStdio(server="board")
FREE: dict[str, Any] = {
    "sku": "",
    "side_effect": tool_pb2.SIDE_EFFECT_PURE,
    "limits": tool_pb2.ToolLimits(max_concurrency=64),
}


def board(name: str, tool_name: str, **fields: Any) -> tool_pb2.ToolSpec:
    mcp = tool_pb2.McpConnection(tool_name=tool_name, stdio=STDIO)
    connection = tool_pb2.Connection(mcp=mcp)
    return make_spec(
        name, NO_ARGUMENTS, kind=tool_pb2.TOOL_KIND_MCP, connection=connection, **fields
    )


def function(name: str, called: str, **fields: Any) -> tool_pb2.ToolSpec:
    connection = tool_pb2.Connection(function=tool_pb2.FunctionConnection(function=called))
    return make_spec(name, connection=connection, **fields)


def code(name: str, memory_bytes: int = 0, **fields: Any) -> tool_pb2.ToolSpec:
    connection = tool_pb2.Connection(code=tool_pb2.CodeConnection(memory_bytes=memory_bytes))
    return make_spec(name, kind=tool_pb2.TOOL_KIND_CODE, connection=connection, **fields)


def retrieval(name: str, corpus: str, **fields: Any) -> tool_pb2.ToolSpec:
    connection = tool_pb2.Connection(retrieval=tool_pb2.RetrievalConnection(corpus=corpus))
    return make_spec(name, kind=tool_pb2.TOOL_KIND_RETRIEVAL, connection=connection, **fields)


def named(*names: str) -> policy_pb2.ToolSelector:
    return policy_pb2.ToolSelector(names=names)


OPERATORS: dict[str, Any] = {
    "side_effect": tool_pb2.SIDE_EFFECT_EFFECTFUL,
    "limits": tool_pb2.ToolLimits(max_concurrency=2),
}
PAIRS = {
    "mcp": (board("board_create", "create", **OPERATORS), board("make_note", "create", **FREE)),
    "function": (
        function("database", "query_database", **OPERATORS),
        function("mine", "query_database", **FREE),
    ),
    "code": (code("python", 1 << 20, **OPERATORS), code("mine", 1 << 32, **FREE)),
    "retrieval": (
        retrieval("library", "library", **OPERATORS),
        retrieval("mine", "library", **FREE),
    ),
}


async def both(registry: RunningRegistry, kind: str) -> tuple[Caller, str, str]:
    operators, own = PAIRS[kind]
    await registry.platform().register(operators, shared=True)
    evil = registry.as_("evil")
    made = await evil.register(own)
    assert made.tool.spec.sku == operators.sku
    return evil, operators.name, own.name


@pytest.mark.parametrize("kind", PAIRS)
async def test_price_limits_and_side_effect_are_the_operators(
    registry: RunningRegistry, kind: str
) -> None:
    evil, operators, own = await both(registry, kind)
    theirs, mine = (await evil.get(operators)).spec, (await evil.get(own)).spec
    assert (mine.sku, mine.limits, mine.side_effect) == (
        theirs.sku,
        theirs.limits,
        theirs.side_effect,
    )
    assert mine.connection.code.memory_bytes == theirs.connection.code.memory_bytes
    registry.prices.give(make_price(theirs.sku, {"CALL": ("5", "1")}))
    registry.prices.give(make_price("own/free", {"CALL": ("0", "1")}), tenant="evil")
    await evil.create_policy()
    prices = {tool.name: tool.price_per_call.amount for tool in await tools(evil)}
    assert prices[own] == prices[operators] == "5"


async def tools(caller: Caller) -> Any:
    return (await caller.resolve("mine")).toolset.tools


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("capitals", [str, str.upper, str.title])
async def test_a_rule_for_the_operators_tool_is_one_for_every_name_of_it(
    registry: RunningRegistry, kind: str, capitals: Any
) -> None:
    evil, operators, own = await both(registry, kind)
    await evil.create_policy()
    platform = registry.platform()
    await platform.create_policy("platform-floor", approval=named(capitals(operators)))
    assert (await evil.decided("mine", own)).needs_approval
    await platform.create_policy("platform-floor", deny=named(capitals(operators)))
    denied = await evil.decided("mine", own)
    assert not denied.allowed and f"denied by name {operators}" in denied.reason
    assert not await tools(evil)
    await platform.create_policy("platform-floor", allow=named(operators))
    assert (await evil.decided("mine", own)).allowed


async def test_tags_and_provider_that_a_policy_denies_come_along(
    registry: RunningRegistry,
) -> None:
    spec = board("board_create", "create", tags=["internal"], provider="boards")
    await registry.platform().register(spec, shared=True)
    evil = registry.as_("evil")
    await evil.register(board("make_note", "create", sku="", provider="mine", tags=["mine"]))
    await evil.create_policy()
    for selector in (
        policy_pb2.ToolSelector(tags=["internal"]),
        policy_pb2.ToolSelector(providers=["boards"]),
    ):
        await registry.platform().create_policy("platform-floor", deny=selector)
        assert not (await evil.decided("mine", "make_note")).allowed


async def test_what_the_operator_does_not_offer_of_a_server_is_not_called(
    registry: RunningRegistry,
) -> None:
    evil = registry.as_("evil")
    platform = registry.platform()
    await platform.register(PAIRS["mcp"][0], shared=True)
    error = await rejected(evil.register(board("late", "drop", **FREE)))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "drop of the server board is not offered" in str(error.details())
    batch = await evil.tools.RegisterTools(pb.RegisterToolsRequest(specs=[board("b", "drop")]))
    assert "is not offered" in batch.tools[0].problem


async def test_a_program_that_the_operator_shares_no_tool_of_is_not_named(
    registry: RunningRegistry,
) -> None:
    evil, spec = registry.as_("evil"), board("mine", "drop", **FREE)
    error = await rejected(evil.register(spec))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "board is a program of the operator, who has shared no tool of it" in str(
        error.details()
    )
    batch = await evil.tools.RegisterTools(pb.RegisterToolsRequest(specs=[spec]))
    assert batch.tools[0].problem == error.details()


async def test_what_was_registered_first_follows_the_operator(registry: RunningRegistry) -> None:
    evil = registry.as_("evil")
    # A price that is the operator's to give.
    await evil.register(function("mine", "query_database", sku="tool/cheap"))
    await registry.platform().register(PAIRS["function"][0], shared=True)
    assert (await evil.get("mine")).spec.sku == "tool/database"
    changed = function("database", "query_database", sku="tool/dearer")
    await registry.platform().register(changed, shared=True)
    assert (await evil.get("mine")).spec.sku == "tool/dearer"
    await registry.platform().deprecate("database")
    assert (await evil.get("mine")).spec.sku == "tool/dearer"


@pytest.mark.parametrize("kind", PAIRS)
async def test_a_price_that_would_have_no_effect_is_rejected_with_the_operators(
    registry: RunningRegistry, kind: str
) -> None:
    evil, _, own = await both(registry, kind)
    theirs = PAIRS[kind][0].sku
    spec = tool_pb2.ToolSpec()
    spec.CopyFrom(PAIRS[kind][1])
    spec.name, spec.sku = f"{own}_again", "own/free"
    error = await rejected(evil.register(spec))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert f"leave it unset, or name {theirs}" in str(error.details())
    batch = await evil.tools.RegisterTools(pb.RegisterToolsRequest(specs=[spec]))
    assert batch.tools[0].problem == error.details()
    spec.sku = theirs
    assert (await evil.register(spec)).tool.spec.sku == theirs


@pytest.mark.parametrize(
    "spec",
    [
        function("mine", "calculator", **{**FREE, "sku": "own/free"}),
        code("mine", **{**FREE, "sku": "own/free"}),
    ],
)
async def test_no_tenant_prices_a_function_or_the_sandbox(
    registry: RunningRegistry, spec: tool_pb2.ToolSpec
) -> None:
    evil = registry.as_("evil")
    error = await rejected(evil.register(spec))
    assert "is the operator's; name it without" in str(error.details())
    batch = await evil.tools.RegisterTools(pb.RegisterToolsRequest(specs=[spec]))
    assert "is the operator's" in batch.tools[0].problem


async def test_a_name_is_one_whatever_its_capitals(registry: RunningRegistry) -> None:
    evil, bank, platform = registry.as_("evil"), registry.as_("bank"), registry.platform()
    await platform.register(make_spec("board_create"), shared=True)
    await evil.register(make_spec("mine"))
    for caller, name in ((evil, "Board_create"), (evil, "BOARD_CREATE"), (evil, "Mine")):
        error = await rejected(caller.register(make_spec(name)))
        assert error.code() is grpc.StatusCode.ALREADY_EXISTS, name
        batch = await caller.tools.RegisterTools(pb.RegisterToolsRequest(specs=[make_spec(name)]))
        assert batch.tools[0].problem == error.details()
    error = await rejected(platform.register(make_spec("MINE"), shared=True))
    assert "names a tool of 1 tenants" in str(error.details())
    # A tenant's names are nothing to another's.
    await bank.register(make_spec("Mine"))
    both_at_once = pb.RegisterToolsRequest(specs=[make_spec("two"), make_spec("Two")])
    outcomes = (await bank.tools.RegisterTools(both_at_once)).tools
    assert [bool(each.problem) for each in outcomes] == [False, True]
