import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from builders.tool_calls import tool_call, tool_definition
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.tool_kinds import MCP
from tool_adapters.adapter import AdapterResult, CallFailed, Output
from tool_adapters.config import SECRET_PREFIX
from tool_adapters.mcp.adapter import McpAdapter
from tool_adapters.mcp.definitions import McpDefinitions
from tool_adapters.mcp.pool import McpPool
from tool_adapters.mcp.servers import McpServers
from tool_adapters.models import (
    HeaderAuth,
    McpConnection,
    McpHttp,
)
from tool_adapters.network_guard import NetworkGuard
from tool_adapters.secret_store import MountedSecrets

ENVELOPE = {"jsonrpc": "2.0"}
INITIALIZED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "busy", "version": "1"},
}
SECRETS = {f"{SECRET_PREFIX}ACME__{name}": f"{name.lower()[0]}-1234567" for name in ("KEY", "APP")}
AT = McpHttp("http://mcp.example.com/mcp")
CALLED = {"content": [{"type": "text", "text": "done"}]}


class Server:
    """Answers by HTTP, by the name of the tool or the method. An answer in `once` is given the
    first time only.
    """

    def __init__(self) -> None:
        self.answers: dict[str, httpx2.Response] = {}
        self.once: dict[str, httpx2.Response] = {}
        self.sessions = 0
        self.seen: list[httpx2.Request] = []

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return httpx2.Response(405)
        message: dict[str, Any] = json.loads(request.content)
        if "id" not in message:
            return httpx2.Response(202)
        name = message.get("params", {}).get("name") or message["method"]
        self.seen.append(request)
        if name in self.once:
            return answer_to(message, self.once.pop(name))
        if name == "initialize":
            self.sessions += 1
        if name in self.answers:
            return self.answers[name]
        results: dict[str, Any] = {"initialize": INITIALIZED, "tools/call": CALLED}
        result = results.get(message["method"], {"tools": []})
        headers = {"mcp-session-id": f"s{self.sessions}"} if name == "initialize" else {}
        body = {**ENVELOPE, "id": message["id"], "result": result}
        return httpx2.Response(200, headers=headers, json=body)


def answer_to(message: dict[str, Any], answer: httpx2.Response) -> httpx2.Response:
    if "error" not in answer.text:
        return httpx2.Response(answer.status_code, text=answer.text)
    return httpx2.Response(answer.status_code, json={**answer.json(), "id": message["id"]})


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
    servers = McpServers(MountedSecrets(None, SECRETS), guard, McpDefinitions(None))
    adapter = McpAdapter(McpPool(servers, sessions_max=4, idle_timeout_s=900))
    yield adapter
    await adapter.close()


async def invoke(adapter: McpAdapter, name: str, at: McpHttp = AT) -> AdapterResult:
    tool = tool_definition(name, MCP, McpConnection(name, at))
    return await adapter.invoke(tool_call(name), tool)


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


def lost(status: int, code: int, message: str) -> httpx2.Response:
    return httpx2.Response(
        status, json={**ENVELOPE, "id": None, "error": {"code": code, "message": message}}
    )


@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(404),
        httpx2.Response(404, text="Not Found"),
        lost(404, -32600, "Session terminated"),
        lost(404, -32001, "Session not found"),
        lost(404, -32000, "gone"),
        lost(400, -32000, "Bad Request: No valid session ID provided"),
        lost(400, -32600, "Invalid session ID"),
        lost(400, -32000, "Bad Request: Server not initialized"),
        lost(200, -32001, "Session not found"),
        lost(200, -32600, "session expired"),
    ],
)
async def test_a_lost_session_is_opened_anew_and_the_call_made_in_it(
    adapter: McpAdapter, server: Server, answer: httpx2.Response
) -> None:
    server.answers["server/discover"] = httpx2.Response(404)
    first = await invoke(adapter, "pay")
    assert (first.outcome, server.sessions) == (Output("done"), 1)
    server.once["pay"] = answer
    again = await invoke(adapter, "pay")
    assert (again.outcome, server.sessions) == (Output("done"), 2)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lost(200, -32000, "browser session not found"), "browser session not found"),
        (lost(200, -32602, "no session of that name"), "no session of that name"),
        (lost(404, -32601, "no such method"), "no such method"),
        (httpx2.Response(500), "status 500"),
    ],
)
async def test_an_error_that_the_tool_may_have_made_is_not_called_again(
    adapter: McpAdapter, server: Server, answer: httpx2.Response, words: str
) -> None:
    server.answers["server/discover"] = httpx2.Response(404)
    await invoke(adapter, "pay")
    server.once["pay"] = answer
    outcome = (await invoke(adapter, "pay")).outcome
    assert isinstance(outcome, ToolFailure)
    assert words in outcome.message


async def test_a_server_that_loses_every_session_is_called_twice_and_no_more(
    adapter: McpAdapter, server: Server
) -> None:
    server.answers |= {"server/discover": httpx2.Response(404), "pay": httpx2.Response(404)}
    outcome = (await invoke(adapter, "pay")).outcome
    assert isinstance(outcome, ToolFailure)
    assert (outcome.kind, outcome.retryable) == (FailureKind.UNAVAILABLE, True)
    assert server.sessions == 2


async def test_secrets_are_sent_as_the_headers_they_are_named_for(
    adapter: McpAdapter, server: Server
) -> None:
    key = HeaderAuth("X-API-Key", "", "key")
    app = HeaderAuth("X-App", "App ", "app")
    at = McpHttp("http://mcp.example.com/mcp", (key, app), (("X-Region", "eu"),))
    assert (await invoke(adapter, "pay", at)).outcome == Output("done")
    for request in server.seen:
        sent = [request.headers[name] for name in ("x-api-key", "x-app", "x-region")]
        assert sent == ["k-1234567", "App a-1234567", "eu"]


@pytest.mark.parametrize("media_type", ["application/json", "text/event-stream"])
async def test_an_answer_that_begins_with_a_byte_order_mark_is_read(
    adapter: McpAdapter, server: Server, media_type: str
) -> None:
    class Marked(Server):
        async def answer(self, request: httpx2.Request) -> httpx2.Response:
            answer = await super().answer(request)
            if not answer.content:
                return answer
            body = answer.content
            if media_type == "text/event-stream":
                body = b"event: message\ndata: " + body + b"\n\n"
            pieces = [b"\xef", b"\xbb", b"\xbf" + body[:1], body[1:]]

            async def stream() -> AsyncIterator[bytes]:
                for piece in pieces:
                    yield piece

            headers = {**answer.headers, "content-type": media_type}
            del headers["content-length"]
            return httpx2.Response(200, headers=headers, content=stream())

    server.answer = Marked().answer  # type: ignore[method-assign]
    outcome = (await invoke(adapter, "double")).outcome
    assert outcome == Output("done")
