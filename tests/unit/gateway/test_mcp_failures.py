"""What MCP clients read when something fails unexpectedly."""

from typing import Any

import httpx
import pytest
from mcp.shared.exceptions import MCPError

from callers import make_identity
from gateway.episode_ids import EpisodeIds
from gateway.errors import InvalidIdempotencyKey
from gateway.mcp_server.endpoint import McpEndpoint
from gateway.mcp_server.resources import TenantResources
from podium_kit.rpc.identity import acting_as
from unit.gateway.waiting_episodes import UNUSED

STATEMENT = "[SQL: INSERT INTO idempotency_keys]"
# For newer ones the library shows nothing by itself.
VERSIONS = ["2025-06-18", "2025-11-25"]


class Broken:
    """Tools and resources that fail in a way of a database's."""

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
