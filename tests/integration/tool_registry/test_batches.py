import grpc
import pytest

from integration.tool_registry.builders import make_spec
from integration.tool_registry.running_registry import Caller, RunningRegistry, rejected
from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_kit.rpc.identity import Scope


async def register(
    caller: Caller, *specs: tool_pb2.ToolSpec, dry: bool = False, shared: bool = False
) -> list[pb.RegisteredTool]:
    request = pb.RegisterToolsRequest(specs=specs, validate_only=dry, shared=shared)
    return list((await caller.tools.RegisterTools(request)).tools)


async def names(caller: Caller) -> list[str]:
    listed = await caller.tools.ListTools(pb.ListToolsRequest(page_size=500))
    return [tool.spec.name for tool in listed.tools]


async def test_each_becomes_what_it_would_have_become_alone(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec("old", description="first"))
    await ada.register(make_spec("old", description="second"))
    found = await register(
        ada,
        make_spec("new"),
        make_spec("old", description="first"),
        make_spec("other", description="x"),
    )
    assert [(each.name, each.version, each.created) for each in found] == [
        ("new", 1, True),
        ("old", 1, False),
        ("other", 1, True),
    ]
    # What is registered again is the newest again, and works.
    assert (await ada.tools.GetTool(pb.GetToolRequest(name="old"))).tool.version == 1
    again = await register(ada, make_spec("old", description="third"), make_spec("new"))
    assert [(each.version, each.created) for each in again] == [(3, True), (1, False)]
    tools = (await ada.resolve()).toolset.tools
    assert {tool.name: tool.version for tool in tools} == {"new": 1, "old": 3, "other": 1}


async def test_wrong_ones_are_left_out_with_their_reason(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await registry.platform().register(make_spec("everyones"), shared=True)
    found = await register(
        ada,
        make_spec("good"),
        make_spec("no schema", schema="{"),
        make_spec("unset", kind=tool_pb2.TOOL_KIND_UNSPECIFIED),
        make_spec("everyones"),
        make_spec("good", description="twice"),
        make_spec("fine"),
    )
    assert [each.version for each in found] == [1, 0, 0, 0, 0, 1]
    problems = [each.problem for each in found]
    assert not problems[0]
    assert not problems[5]
    assert "give a letter, then at most 63" in problems[1]
    assert "kind is unset" in problems[2]
    assert "is a tool of the platform" in problems[3]
    assert "a name of its own" in problems[4]
    assert await names(ada) == ["everyones", "fine", "good"]


async def test_trying_stores_nothing(registry: RunningRegistry) -> None:
    ada = registry.as_()
    [tried] = await register(ada, make_spec("new"), dry=True)
    assert (tried.version, tried.created) == (1, True)
    assert await names(ada) == []


async def test_a_tool_that_was_deleted_comes_back(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec("gone"))
    await ada.tools.DeleteTool(pb.DeleteToolRequest(name="gone"))
    [back] = await register(ada, make_spec("gone"))
    assert (back.version, back.created) == (1, False)
    assert await names(ada) == ["gone"]


async def test_more_than_may_be_and_who_may_not_are_rejected(registry: RunningRegistry) -> None:
    ada = registry.as_()
    many = [make_spec(f"tool{number}") for number in range(501)]
    error = await rejected(register(ada, *many))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "at most 500" in str(error.details())
    for caller, shared in ((ada, True), (registry.as_("acme", Scope.EPISODES_RUN), False)):
        denied = await rejected(register(caller, make_spec(), shared=shared))
        assert denied.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("tenant", ["acme", "globex"])
async def test_a_shared_name_is_not_taken_by_tenants(
    registry: RunningRegistry, tenant: str
) -> None:
    await registry.as_(tenant).register(make_spec("mine"))
    [found] = await register(registry.platform(), make_spec("mine"), shared=True)
    assert "names a tool of 1 tenants" in found.problem
