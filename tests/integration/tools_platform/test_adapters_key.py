"""A stolen key of the adapters can change only the tools of followed servers.

The key signs here as a thief would: for any tenant, claiming any scope.
"""

from collections.abc import Awaitable
from uuid import uuid4

import grpc
import pytest
import pytest_asyncio

from integration.tools_platform.running_platform import Caller, ToolsPlatform
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_kit.rpc.identity import Scope

SERVER_ID = str(uuid4())
URL = "http://127.0.0.1:1/mcp"


@pytest_asyncio.fixture
async def owner(platform: ToolsPlatform) -> Caller:
    owner = await platform.as_("acme", Scope.TOOLS_WRITE)
    http = tool_pb2.McpHttp(url=URL)
    server = adapters_pb.FollowedMcpServer(
        id=SERVER_ID,
        connection=tool_pb2.McpConnection(http=http),
        name_prefix="lab_",
        sku="lab",
        tags=["lab"],
    )
    await owner.adapters.FollowMcpServer(adapters_pb.FollowMcpServerRequest(server=server))
    function = tool_pb2.Connection(function=tool_pb2.FunctionConnection(function="calculator"))
    own = listed("lab_own", kind=tool_pb2.TOOL_KIND_FUNCTION, connection=function)
    await owner.registry.RegisterTool(pb.RegisterToolRequest(spec=own))
    return owner


def listed(name: str, url: str = URL, **changes: object) -> tool_pb2.ToolSpec:
    mcp = tool_pb2.McpConnection(tool_name="fly", http=tool_pb2.McpHttp(url=url))
    fields: dict[str, object] = {
        "kind": tool_pb2.TOOL_KIND_MCP,
        "description": "Flies.",
        "parameters_json_schema": '{"type": "object"}',
        "connection": tool_pb2.Connection(mcp=mcp),
        "side_effect": tool_pb2.SIDE_EFFECT_PURE,
        "sku": "lab",
        "tags": ["lab"],
    }
    return tool_pb2.ToolSpec(name=name, **(fields | changes))  # type: ignore[arg-type]


async def update(
    thief: Caller, spec: tool_pb2.ToolSpec | None = None, vanished: str = ""
) -> grpc.StatusCode:
    change = {"listed": spec} if spec else {"vanished_name": vanished}
    request = pb.UpdateFollowedToolRequest(server_id=SERVER_ID, **change)
    return await code_of(thief.registry.UpdateFollowedTool(request))


async def code_of(call: Awaitable[object]) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def names(caller: Caller) -> set[str]:
    found = await caller.registry.ListTools(pb.ListToolsRequest())
    return {tool.spec.name for tool in found.tools}


async def test_the_key_changes_a_followed_servers_tools_and_no_others(
    platform: ToolsPlatform, owner: Caller
) -> None:
    thief = await platform.as_adapters("acme", Scope.TOOLS_FOLLOW)
    assert await update(thief, listed("lab_fly")) is grpc.StatusCode.OK
    assert await names(owner) == {"lab_own", "lab_fly"}
    elsewhere = "http://thief.example/mcp"
    for spec in (
        listed("other_fly"),
        listed("lab_swim", url=elsewhere),
        listed("lab_fly", url=elsewhere),
        listed("lab_fly", sku="free"),
        listed("lab_fly", tags=["lab", "trusted"]),
        listed("lab_fly", provider="trusted"),
        listed("lab_fly", limits=tool_pb2.ToolLimits(max_attempts=9)),
        listed("lab_own"),
    ):
        assert await update(thief, spec) is grpc.StatusCode.PERMISSION_DENIED, spec
    for name in ("lab_own", "other_fly"):
        assert await update(thief, vanished=name) is grpc.StatusCode.NOT_FOUND, name
    assert await names(owner) == {"lab_own", "lab_fly"}
    assert await update(thief, vanished="lab_fly") is grpc.StatusCode.OK
    assert await names(owner) == {"lab_own"}


async def test_the_key_is_no_admins_and_no_tool_owners(
    platform: ToolsPlatform, owner: Caller
) -> None:
    thief = await platform.as_adapters("acme", *Scope)
    register = pb.RegisterToolRequest(spec=listed("lab_fly"))
    shared = pb.RegisterToolRequest(spec=listed("lab_fly"), shared=True)
    followed = pb.FollowedTools(server_id=str(uuid4()), name_prefix="a", common=listed("a"))
    for call in (
        thief.registry.RegisterTool(register),
        thief.registry.RegisterTool(shared),
        thief.registry.DeprecateTool(pb.DeprecateToolRequest(name="lab_own")),
        thief.registry.DeleteTool(pb.DeleteToolRequest(name="lab_own")),
        thief.registry.AllowFollowing(pb.AllowFollowingRequest(followed=followed)),
        thief.registry.EndFollowing(pb.EndFollowingRequest(server_id=SERVER_ID)),
        thief.adapters.UnfollowMcpServer(adapters_pb.UnfollowMcpServerRequest(id=SERVER_ID)),
    ):
        assert await code_of(call) is grpc.StatusCode.PERMISSION_DENIED
    assert await names(owner) == {"lab_own"}


async def test_what_one_tenant_allowed_is_nothing_to_another(
    platform: ToolsPlatform, owner: Caller
) -> None:
    thief = await platform.as_adapters("zeta", Scope.TOOLS_FOLLOW)
    assert await update(thief, listed("lab_fly")) is grpc.StatusCode.NOT_FOUND
    zeta = await platform.as_("zeta", Scope.TOOLS_WRITE)
    followed = pb.FollowedTools(server_id=SERVER_ID, name_prefix="b_", common=listed("b"))
    request = pb.AllowFollowingRequest(followed=followed)
    assert await code_of(zeta.registry.AllowFollowing(request)) is grpc.StatusCode.ALREADY_EXISTS
    await owner.adapters.UnfollowMcpServer(adapters_pb.UnfollowMcpServerRequest(id=SERVER_ID))
    thief = await platform.as_adapters("acme", Scope.TOOLS_FOLLOW)
    assert await update(thief, listed("lab_fly")) is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("prefix", ["", "Lab_", "l", "lab_air_", "x" * 33])
async def test_names_of_followed_servers_are_kept_apart(owner: Caller, prefix: str) -> None:
    connection = tool_pb2.McpConnection(http=tool_pb2.McpHttp(url=URL))
    server = adapters_pb.FollowedMcpServer(
        id=str(uuid4()), connection=connection, name_prefix=prefix
    )
    request = adapters_pb.FollowMcpServerRequest(server=server)
    rejections = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS}
    assert await code_of(owner.adapters.FollowMcpServer(request)) in rejections
