"""The MCP servers of a response that is asked for later."""

from dataclasses import replace

import pytest

from gateway.models import KeptRequest
from gateway.responses.mcp_servers import LABEL, RegisteredMcpTools, label_of
from gateway.responses.mcp_tools import McpTool, RegisteredTool

CLOCK = RegisteredTool(
    name="clock_now",
    server="clock",
    url="",
    own_name="now",
    description="",
    parameters_schema={},
    read_only=True,
)


ELSEWHERE = replace(CLOCK, server="", url="https://mcp.example.com/?key=s3cr3t")


class OneTool:
    def __init__(self, tool: RegisteredTool = CLOCK) -> None:
        self._tool = tool

    async def registered(self) -> list[RegisteredTool]:
        return [self._tool]

    async def allowed(self, policy: str) -> frozenset[str]:
        return frozenset({CLOCK.name})


async def test_what_a_response_kept_of_its_servers_finds_them_again() -> None:
    kept = label_of([McpTool(type="mcp", server_label="clock")])[LABEL]
    [server] = await RegisteredMcpTools(OneTool()).kept(KeptRequest(kept, (CLOCK.name,)))
    assert (server.label, server.tools) == ("clock", (CLOCK,))


async def test_what_is_kept_of_a_server_does_not_show_its_url() -> None:
    wanted = McpTool(type="mcp", server_label="far", server_url=f"{ELSEWHERE.url}/")
    kept = label_of([wanted])[LABEL]
    assert "s3cr3t" not in kept and "example" not in kept
    request = KeptRequest(kept, (ELSEWHERE.name,))
    [server] = await RegisteredMcpTools(OneTool(ELSEWHERE)).kept(request)
    assert (server.label, server.tools) == ("far", (ELSEWHERE,))
    assert await RegisteredMcpTools(OneTool(CLOCK)).kept(request) == ()


@pytest.mark.parametrize("label", ["", "on", "[]", "null", '{"clock": 1}', "[" * 256])
async def test_a_label_of_that_name_that_a_caller_chose_names_no_servers(label: str) -> None:
    assert await RegisteredMcpTools(OneTool()).kept(KeptRequest(label, (CLOCK.name,))) == ()
