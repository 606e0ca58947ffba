"""The MCP servers of a response that is asked for later."""

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


class OneTool:
    async def registered(self) -> list[RegisteredTool]:
        return [CLOCK]

    async def allowed(self, policy: str) -> frozenset[str]:
        return frozenset({CLOCK.name})


async def test_what_a_response_kept_of_its_servers_finds_them_again() -> None:
    kept = label_of([McpTool(type="mcp", server_label="clock")])[LABEL]
    [server] = await RegisteredMcpTools(OneTool()).kept(KeptRequest(kept, (CLOCK.name,)))
    assert (server.label, server.tools) == ("clock", (CLOCK,))


@pytest.mark.parametrize("label", ["", "on", "[]", "null", '{"clock": 1}', "[" * 256])
async def test_a_label_of_that_name_that_a_caller_chose_names_no_servers(label: str) -> None:
    assert await RegisteredMcpTools(OneTool()).kept(KeptRequest(label, (CLOCK.name,))) == ()
