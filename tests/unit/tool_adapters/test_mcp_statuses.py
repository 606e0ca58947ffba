"""What an MCP server says by its HTTP status decides what a call's failure is."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from podium_kit.failures import FailureKind, ToolFailure
from tool_adapters.adapter import AdapterResult, CallFailed, ToolCall
from tool_adapters.mcp.adapter import McpAdapter
from tool_adapters.mcp.definitions import McpDefinitions
from tool_adapters.mcp.pool import McpPool
from tool_adapters.mcp.servers import McpServers
from tool_adapters.models import (
    Limits,
    McpConnection,
    McpHttp,
    SideEffect,
    ToolDefinition,
    ToolKind,
)
from tool_adapters.network_guard import NetworkGuard
from tool_adapters.secret_store import MountedSecrets

ENVELOPE = {"jsonrpc": "2.0"}
INITIALIZED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "busy", "version": "1"},
}


class Server:
    """Answers by HTTP as it is said to, by the name of the tool or the method."""

    def __init__(self) -> None:
        self.answers: dict[str, httpx2.Response] = {}

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return httpx2.Response(405)
        message: dict[str, Any] = json.loads(request.content)
        if "id" not in message:
            return httpx2.Response(202)
        name = message["params"].get("name") or message["method"]
        if name in self.answers:
            return self.answers[name]
        result = INITIALIZED if name == "initialize" else {"tools": []}
        return httpx2.Response(200, json={**ENVELOPE, "id": message["id"], "result": result})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()

    async def handle(_: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> httpx2.Response:
        return await server.answer(request)

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", handle)
    return server


@pytest_asyncio.fixture
async def adapter() -> AsyncIterator[McpAdapter]:
    guard = NetworkGuard(allow_private=True)
    servers = McpServers(MountedSecrets(None, {}), guard, McpDefinitions(None))
    adapter = McpAdapter(McpPool(servers, sessions_max=4, idle_timeout_s=900))
    yield adapter
    await adapter.close()


async def invoke(adapter: McpAdapter, name: str) -> AdapterResult:
    tool = ToolDefinition(
        name=name,
        version=1,
        kind=ToolKind.MCP,
        parameters_schema={"type": "object"},
        result_schema=None,
        connection=McpConnection(name, McpHttp("http://mcp.example.com/mcp")),
        side_effect=SideEffect.PURE,
        limits=Limits(),
    )
    return await adapter.invoke(ToolCall("k", "e", name, 1, {}, "", "", 0, "acme"), tool)


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (401, FailureKind.PERMISSION_DENIED, False),
        (429, FailureKind.RATE_LIMITED, True),
    ],
)
async def test_a_server_that_opens_no_session_says_why(
    adapter: McpAdapter, server: Server, status: int, kind: FailureKind, retryable: bool
) -> None:
    for method in ("server/discover", "initialize"):
        server.answers[method] = httpx2.Response(status, headers={"retry-after": "7"})
    with pytest.raises(CallFailed, match=f"mcp.example.com .* status {status}") as rejected:
        await invoke(adapter, "double")
    failure = rejected.value.failure
    assert (failure.kind, failure.retryable, failure.retry_after_s) == (kind, retryable, 7.0)


async def test_calls_of_one_session_fail_by_the_status_of_their_own(
    adapter: McpAdapter, server: Server
) -> None:
    # Its code is also the SDK's for a session that ended.
    error = {**ENVELOPE, "id": None, "error": {"code": -32000, "message": "wait a little"}}
    own = {**ENVELOPE, "id": None, "error": {"code": -32050, "message": "no such city"}}
    server.answers = {
        "limited": httpx2.Response(429, headers={"retry-after": "7"}, json=error),
        "away": httpx2.Response(503),
        "wrong": httpx2.Response(400, json=own),
    }
    results = await asyncio.gather(*(invoke(adapter, name) for name in server.answers))
    limited, away, wrong = (result.outcome for result in results)
    assert isinstance(limited, ToolFailure)
    assert (limited.kind, limited.retry_after_s) == (FailureKind.RATE_LIMITED, 7.0)
    assert limited.message.endswith("status 429: wait a little")
    assert isinstance(away, ToolFailure)
    assert (away.kind, away.retryable) == (FailureKind.UNAVAILABLE, True)
    assert wrong == ToolFailure(FailureKind.TOOL_ERROR, "no such city")
