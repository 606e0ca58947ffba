"""Tools of the protocol's own reference server for time (mcp-server-time), as a real process."""

import json

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2

DEFINITION = "argv: [mcp-server-time, --local-timezone, UTC]"
DISCOVERY = pb.DiscoverMcpToolsRequest(
    connection=tool_pb2.McpConnection(stdio=tool_pb2.McpStdio(server="time")),
    name_prefix="clock_",
)
CONVERSION = {"source_timezone": "Asia/Tokyo", "target_timezone": "Asia/Kolkata"}


async def test_the_reference_server_is_imported_and_answers(adapters: AdaptersUnderTest) -> None:
    adapters.mcp_servers.mkdir()
    (adapters.mcp_servers / "time.yaml").write_text(DEFINITION)
    found = await adapters.stub.DiscoverMcpTools(DISCOVERY)
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
