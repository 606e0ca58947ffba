import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg
import grpc
import pytest
from mcp import Client
from sqlalchemy import make_url

from embedded_servers import Database
from integration.podium_kit.rpc.test_health import NOT_SERVING, SERVING, watch
from integration.tools_platform.running_platform import Caller, ToolsPlatform, running_platform
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb
from podium_kit.embedded.ports import free_port
from podium_kit.rpc.identity import Scope

PROGRAM = Path(__file__).with_name("changing_mcp_server.py")
OWN = {"lab_teach", "lab_forget"}


@asynccontextmanager
async def changing_server(port: int) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), str(port), stderr=asyncio.subprocess.DEVNULL
    )
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        await asyncio.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()


async def change(url: str, tool: str, **arguments: str) -> None:
    async with Client(url) as client:
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, result


def followed(url: str) -> adapters_pb.FollowedMcpServer:
    connection = tool_pb2.McpConnection(http=tool_pb2.McpHttp(url=url))
    return adapters_pb.FollowedMcpServer(
        id=str(uuid4()), connection=connection, name_prefix="lab_", tags=["lab"], shared=True
    )


async def follow(admin: Caller, server: adapters_pb.FollowedMcpServer) -> None:
    await admin.adapters.FollowMcpServer(adapters_pb.FollowMcpServerRequest(server=server))


async def current(admin: Caller) -> dict[str, tool_pb2.Tool]:
    listed = await admin.registry.ListTools(registry_pb.ListToolsRequest())
    return {tool.spec.name: tool for tool in listed.tools}


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        await asyncio.sleep(0.05)


async def until_named(admin: Caller, names: set[str]) -> dict[str, tool_pb2.Tool]:
    async def are_they() -> bool:
        return (await current(admin)).keys() == names

    await until(are_they)
    return await current(admin)


async def test_what_a_server_announces_becomes_versions_and_deprecations(
    platform: ToolsPlatform,
) -> None:
    admin = await platform.admin()
    async with changing_server(free_port()) as url:
        await follow(admin, followed(url))
        tools = await until_named(admin, OWN)
        assert tools["lab_teach"].spec.tags == ["lab"]
        await change(url, "teach", name="fly", description="Flies.")
        tools = await until_named(admin, OWN | {"lab_fly"})
        assert (tools["lab_fly"].version, tools["lab_fly"].shared) == (1, True)
        await change(url, "teach", name="fly", description="Flies far.")

        async def is_second() -> bool:
            return (await current(admin))["lab_fly"].version == 2

        await until(is_second)
        assert (await current(admin))["lab_fly"].spec.description == "Flies far."
        await change(url, "forget", name="fly")
        tools = await until_named(admin, OWN)
        # Nothing else was touched.
        assert {tool.version for tool in tools.values()} == {1}


async def test_a_server_that_was_away_is_followed_again(platform: ToolsPlatform) -> None:
    admin, port = await platform.admin(), free_port()
    server = followed(f"http://127.0.0.1:{port}/mcp")
    await follow(admin, server)

    async def problem() -> str:
        listed = await admin.adapters.ListFollowedMcpServers(
            adapters_pb.ListFollowedMcpServersRequest()
        )
        return str(listed.servers[0].problem)

    async def is_reported() -> bool:
        return "cannot be reached" in await problem()

    await until(is_reported)
    assert not await current(admin)
    async with changing_server(port):
        await until_named(admin, OWN)
    await until(is_reported)
    # What it had stays registered: a server that is away has not lost its tools.
    assert (await current(admin)).keys() == OWN
    async with changing_server(port) as url:
        await change(url, "teach", name="fly", description="Flies.")
        await until_named(admin, OWN | {"lab_fly"})


async def test_a_fault_of_the_database_shows_in_health_until_it_is_gone(
    platform: ToolsPlatform,
) -> None:
    admin, url = await platform.admin(), make_url(platform.adapters_settings.database_url)
    owner = await asyncpg.connect(
        url.set(drivername="postgresql").render_as_string(hide_password=False)
    )
    async with (
        changing_server(free_port()) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{platform.ports.adapters}") as channel,
    ):
        await follow(admin, followed(server))
        await until_named(admin, OWN)
        states = watch(channel, "background/following")
        assert await anext(states) == SERVING
        await owner.execute(
            "ALTER TABLE followed_servers ADD CONSTRAINT trouble"
            " CHECK (listed::text NOT LIKE '%fly%') NOT VALID"
        )
        await change(server, "teach", name="fly", description="Flies.")
        assert await anext(states) == NOT_SERVING
        await owner.execute("ALTER TABLE followed_servers DROP CONSTRAINT trouble")
        assert await anext(states) == SERVING
        await until_named(admin, OWN | {"lab_fly"})
    await owner.close()


async def test_another_process_resumes_where_one_stopped(
    database: Database, tmp_path: Path
) -> None:
    async with running_platform(database, tmp_path) as platform:
        admin = await platform.admin()
        async with changing_server(free_port()) as url:
            server = followed(url)
            await follow(admin, server)
            await until_named(admin, OWN)
            await admin.registry.DeprecateTool(registry_pb.DeprecateToolRequest(name="lab_forget"))
            await platform.restart_adapters()
            admin = await platform.admin()
            await change(url, "teach", name="fly", description="Flies.")
            # What its owner took out of use stays so: the server did not change it.
            await until_named(admin, {"lab_teach", "lab_fly"})
            request = adapters_pb.UnfollowMcpServerRequest(id=server.id)
            await admin.adapters.UnfollowMcpServer(request)
            listed = await admin.adapters.ListFollowedMcpServers(
                adapters_pb.ListFollowedMcpServersRequest()
            )
            assert not listed.servers


async def test_only_a_platform_admin_follows_for_everybody(platform: ToolsPlatform) -> None:
    owner = await platform.as_("acme", Scope.TOOLS_WRITE)
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await follow(owner, followed("http://127.0.0.1:1/mcp"))
    assert rejected.value.code() is grpc.StatusCode.PERMISSION_DENIED
