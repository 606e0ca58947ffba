import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from integration.tool_adapters.tool_specs import mcp_http_spec
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2
from podium_kit.embedded.ports import free_port
from podium_kit.rpc.identity import Scope

SERVER = Path(__file__).parent / "mcp_http_server.py"


@pytest_asyncio.fixture
async def server_url() -> AsyncIterator[str]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVER), str(port), stderr=asyncio.subprocess.DEVNULL
    )
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        await asyncio.sleep(0.05)
    yield f"http://127.0.0.1:{port}/mcp"
    process.kill()
    await process.wait()


async def test_a_tool_answers_with_text_and_json(
    adapters: AdaptersUnderTest, server_url: str
) -> None:
    answer = await adapters.call(
        adapters.register(mcp_http_spec("double", server_url)), {"number": 21}
    )
    assert answer.output.content == "42"
    assert answer.output.content_json == '{"result": 42}'


async def test_a_tenants_tool_does_not_reach_a_private_server(
    adapters: AdaptersUnderTest, server_url: str
) -> None:
    answer = await adapters.call(
        adapters.register(mcp_http_spec("double", server_url), shared=False), {"number": 21}
    )
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_PERMISSION_DENIED
    assert "not public" in answer.failure.message


async def test_a_server_that_is_not_there_is_unavailable(adapters: AdaptersUnderTest) -> None:
    name = adapters.register(mcp_http_spec("double", "http://127.0.0.1:1/mcp"))
    answer = await adapters.call(name, {"number": 21})
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert "127.0.0.1" in answer.failure.message


DEFINITION = "argv: [mcp-server-time, --local-timezone, UTC]"
DISCOVERY = pb.DiscoverMcpToolsRequest(
    connection=tool_pb2.McpConnection(stdio=tool_pb2.McpStdio(server="time")),
    name_prefix="clock_",
)
CONVERSION = {"source_timezone": "Asia/Tokyo", "target_timezone": "Asia/Kolkata"}


async def test_the_reference_server_is_imported_and_answers(adapters: AdaptersUnderTest) -> None:
    adapters.mcp_servers.mkdir()
    (adapters.mcp_servers / "time.yaml").write_text(DEFINITION)
    async with adapters.as_caller(scope=Scope.PLATFORM_ADMIN) as operator:
        found = await operator.DiscoverMcpTools(DISCOVERY)
    assert {adapters.register(spec) for spec in found.specs} == {
        "clock_convert_time",
        "clock_get_current_time",
    }
    converted = await adapters.call("clock_convert_time", {**CONVERSION, "time": "12:00"})
    # Neither zone has a summer time, so the answer is the same on every day.
    assert json.loads(converted.output.content)["time_difference"] == "-3.5h"
    nowhere = await adapters.call("clock_get_current_time", {"timezone": "Moon/Base"})
    assert nowhere.failure.kind == failure_pb2.FAILURE_KIND_TOOL_ERROR
    assert "Moon/Base" in nowhere.failure.message
