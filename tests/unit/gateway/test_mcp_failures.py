from dataclasses import replace
from typing import Any

import httpx
import pytest
from mcp.shared.exceptions import MCPError

from callers import make_identity
from gateway.episode_ids import EpisodeIds
from gateway.errors import InvalidIdempotencyKey
from gateway.mcp_server.endpoint import McpEndpoint
from gateway.mcp_server.resources import TenantResources
from gateway.models import KeptRequest
from gateway.responses.mcp_servers import LABEL, RegisteredMcpTools, label_of
from gateway.responses.mcp_tools import McpTool, RegisteredTool
from podium_kit.rpc.identity import acting_as
from unit.gateway.waiting_episodes import UNUSED

STATEMENT = "[SQL: INSERT INTO idempotency_keys]"
# For newer ones the library shows nothing by itself.
VERSIONS = ["2025-06-18", "2025-11-25"]


class Broken:
    async def page(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(STATEMENT)

    call = read = page


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", {}),
        ("tools/call", {"name": "calculator", "arguments": {}}),
        ("resources/list", {}),
        ("resources/read", {"uri": "podium://corpora/a"}),
    ],
)
async def test_nothing_of_the_inside_is_shown(
    method: str, params: dict[str, Any], version: str
) -> None:
    broken: Any = Broken()
    endpoint = McpEndpoint(UNUSED, broken, broken)
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": version,
    }
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    transport = httpx.ASGITransport(endpoint)
    async with (
        endpoint.running(),
        httpx.AsyncClient(transport=transport, base_url="http://gateway") as http,
    ):
        reply = await http.post("/v1/mcp", json=asked, headers=headers)
    assert STATEMENT not in reply.text
    assert "quote the request id" in reply.text


@pytest.mark.parametrize("key", ["", "a\0b", "\ud800", "x" * 256])
async def test_a_key_that_cannot_be_stored_is_rejected(key: str) -> None:
    with acting_as(make_identity()), pytest.raises(InvalidIdempotencyKey):
        async with EpisodeIds(UNUSED).starting_with(key, b""):
            pass


@pytest.mark.parametrize("uri", ["podium://[x", "podium://corpora]"])
async def test_what_is_no_uri_is_no_resource(uri: str) -> None:
    with pytest.raises(MCPError, match="there is no podium"):
        await TenantResources(UNUSED).read(uri)


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
