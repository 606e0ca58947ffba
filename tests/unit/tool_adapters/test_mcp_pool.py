import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpcore2
import mcp_types
import pytest
import pytest_asyncio
from mcp import Client
from mcp.client.subscriptions import ListenNotSupportedError
from mcp_types.methods import validate_server_result

from builders.tool_calls import tool_call, tool_definition
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.tool_kinds import MCP
from tool_adapters.adapter import Answer, CallFailed, Output
from tool_adapters.calls.attempts import FAILURE_BYTES_MIN, Attempts, CallProgress
from tool_adapters.following import watching
from tool_adapters.following.watching import ListWatch
from tool_adapters.mcp.adapter import McpAdapter
from tool_adapters.mcp.discovery import Discovery
from tool_adapters.mcp.guard import CONNECTIONS_MAX, mcp_http_client
from tool_adapters.mcp.messages import read_message
from tool_adapters.mcp.pool import McpPool, McpSession
from tool_adapters.mcp.results import outcome_of
from tool_adapters.mcp.servers import McpServers, ServerOwner
from tool_adapters.models import (
    Limits,
    McpConnection,
    McpHttp,
    McpStdio,
)
from tool_adapters.network_guard import HostNames

SERVER = McpHttp("https://mcp.example.com/mcp")
SESSIONS_MAX = 4


class Servers:
    def __init__(self) -> None:
        self.open: list[str] = []

    def require_defined(self, server: McpStdio | McpHttp) -> None: ...

    @asynccontextmanager
    async def opened(self, server: McpStdio | McpHttp, owner: ServerOwner) -> AsyncIterator[Client]:
        self.open.append(owner.tenant)
        yield cast("Client", object())
        self.open.remove(owner.tenant)


@pytest.fixture
def servers() -> Servers:
    return Servers()


@pytest_asyncio.fixture
async def pool(servers: Servers) -> AsyncIterator[McpPool]:
    known: Any = servers
    pool = McpPool(cast("McpServers", known), sessions_max=SESSIONS_MAX, idle_timeout_s=900)
    yield pool
    await pool.close()


async def used(pool: McpPool, tenant: str, episode_id: str) -> McpSession:
    session = await pool.session(ServerOwner(tenant, shared=False), episode_id, SERVER)
    async with session.borrowed():
        return session


async def test_who_has_the_most_gives_its_longest_idle_session_to_who_has_fewer(
    pool: McpPool, servers: Servers
) -> None:
    kept = [await used(pool, "busy", str(number)) for number in range(SESSIONS_MAX)]
    assert await used(pool, "busy", "0") is kept[0]
    first = await used(pool, "quiet", "a")
    second = await used(pool, "quiet", "b")
    assert sorted(servers.open) == ["busy", "busy", "quiet", "quiet"]
    # The first was used last but one, so the second and third went.
    assert await used(pool, "busy", "0") is kept[0]
    assert await used(pool, "busy", "3") is kept[3]
    assert await used(pool, "quiet", "a") is first
    assert await used(pool, "quiet", "b") is second
    for tenant in ("busy", "quiet"):
        with pytest.raises(CallFailed, match="4 sessions with MCP servers are open") as rejected:
            await used(pool, tenant, "one more")
        assert rejected.value.failure.kind is FailureKind.UNAVAILABLE
        assert (rejected.value.failure.retryable, rejected.value.unsent) == (True, True)


async def test_a_session_that_a_call_uses_is_not_taken(pool: McpPool, servers: Servers) -> None:
    owner = ServerOwner("busy", shared=False)
    sessions = [await pool.session(owner, str(n), SERVER) for n in range(SESSIONS_MAX)]
    async with sessions[0].borrowed(), sessions[1].borrowed():
        async with sessions[2].borrowed(), sessions[3].borrowed():
            with pytest.raises(CallFailed):
                await used(pool, "quiet", "a")
        await used(pool, "quiet", "a")
    assert sorted(servers.open) == ["busy", "busy", "busy", "quiet"]


@pytest.mark.parametrize("trusted", [True, False])
async def test_many_requests_connect_at_once(
    monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    connecting, all_connect = 0, asyncio.Event()

    async def connect_tcp(*_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        nonlocal connecting
        connecting += 1
        if connecting == CONNECTIONS_MAX:
            all_connect.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect_tcp)
    async with mcp_http_client(HostNames(), "acme", {}, trusted=trusted) as client:
        requests = [
            asyncio.create_task(client.post("http://1.1.1.1/mcp")) for _ in range(CONNECTIONS_MAX)
        ]
        # A request that finds no place in the pool ends before this.
        done, waiting = await asyncio.wait(
            [*requests, reached := asyncio.create_task(all_connect.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert done == {reached}


class Restless:
    server_info = None

    def __init__(self) -> None:
        self.hear: Any = None

    @asynccontextmanager
    async def opened(self, _server: McpHttp, _owner: ServerOwner, hear: Any) -> AsyncIterator[Any]:
        self.hear = hear
        yield self

    async def list_tools(self, cursor: str | None) -> mcp_types.ListToolsResult:
        await self.hear(mcp_types.ToolListChangedNotification())
        return mcp_types.ListToolsResult(tools=[])

    def listen(self, **_: Any) -> Any:
        raise ListenNotSupportedError("2025-11-25")


@pytest.mark.parametrize(("pause_s", "most"), [(3600.0, 1), (0.0, 1_000)])
async def test_a_server_that_always_has_changed_is_asked_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, pause_s: float, most: int
) -> None:
    listed = 0

    async def each(_: Discovery) -> None:
        nonlocal listed
        listed += 1

    monkeypatch.setattr(watching, "PAUSE_S", pause_s)
    servers: Any = Restless()
    owner = ServerOwner("acme", shared=False)
    watch = ListWatch(servers, relist_s=3600.0)
    running = asyncio.create_task(watch.run(McpHttp("https://mcp.example.com/mcp"), owner, each))
    for _ in range(200):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running})
    # Without a pause it is asked as often as it wants.
    assert 1 <= listed <= most
    assert (listed == 1) == (pause_s > 0)


BYTES_MAX = 10_000


class OneSession:
    def __init__(self, result: mcp_types.CallToolResult) -> None:
        self._result = result

    async def session(self, *_: Any) -> "OneSession":
        return self

    @asynccontextmanager
    async def borrowed(self) -> AsyncIterator["OneSession"]:
        yield self

    async def call_tool(self, *_: Any) -> mcp_types.CallToolResult:
        return self._result


async def answer_of(**result: Any) -> Answer:
    session: Any = OneSession(mcp_types.CallToolResult(**result))
    attempts = Attempts({MCP: McpAdapter(session)})
    tool = tool_definition(
        "look_up",
        MCP,
        McpConnection("look_up", McpHttp("https://mcp.example.com/mcp")),
        limits=Limits(max_output_bytes=BYTES_MAX),
    )
    call = tool_call("look_up")
    return await attempts.make(CallProgress(call, tool))


def text(words: str) -> mcp_types.TextContent:
    return mcp_types.TextContent(type="text", text=words)


def image(media_type: str) -> mcp_types.ImageContent:
    return mcp_types.ImageContent(type="image", data="", mime_type=media_type)


@pytest.mark.parametrize(
    "result",
    [
        {"content": [text("ok")], "structured_content": {"rows": "x" * BYTES_MAX}},
        {"content": [image("image/" + "x" * BYTES_MAX)]},
        {"content": [image("image/png")] * 1_000},
    ],
    ids=["structured", "media type", "empty files"],
)
async def test_a_large_part_beside_a_small_text_is_too_large(result: Any) -> None:
    outcome = (await answer_of(**result)).outcome
    assert isinstance(outcome, ToolFailure)
    assert outcome.kind is FailureKind.OUTPUT_TOO_LARGE


async def test_structured_content_below_the_limit_is_an_output() -> None:
    outcome = (await answer_of(content=[text("2")], structured_content={"rows": 2})).outcome
    assert outcome == Output("2", '{"rows": 2}')


async def test_what_is_said_about_a_failure_is_cut_at_the_limit() -> None:
    outcome = (await answer_of(content=[text("ä" * 10**6)], is_error=True)).outcome
    assert isinstance(outcome, ToolFailure)
    assert outcome.kind is FailureKind.TOOL_ERROR
    assert FAILURE_BYTES_MIN < len(outcome.message.encode()) <= BYTES_MAX + len("...")
    assert outcome.message.endswith("ä...")


async def test_what_a_model_cannot_see_is_named_and_kept() -> None:
    picture = mcp_types.ImageContent(type="image", data="iVBORw0=", mime_type="image/png")
    sound = mcp_types.AudioContent(type="audio", data="UklGRg==", mime_type="audio/mpeg")
    blob = mcp_types.EmbeddedResource(
        type="resource",
        resource=mcp_types.BlobResourceContents(
            uri="file:///report.pdf", mime_type="application/pdf", blob="JVBERi0="
        ),
    )
    page = mcp_types.EmbeddedResource(
        type="resource", resource=mcp_types.TextResourceContents(uri="file:///a.md", text="# A")
    )
    link = mcp_types.ResourceLink(
        type="resource_link", name="log", uri="file:///log", mime_type="text/plain", size=7
    )
    broken = mcp_types.ImageContent(type="image", data="no base64!", mime_type="image/gif")
    outcome = (
        await answer_of(content=[text("See:"), picture, sound, blob, page, link, broken])
    ).outcome
    assert isinstance(outcome, Output)
    assert outcome.content.splitlines() == [
        "See:",
        "(image of type image/png, 5 bytes: no text, kept as the file 1.png)",
        "(audio of type audio/mpeg, 4 bytes: no text, kept as the file 2.mp3)",
        "(resource file:///report.pdf of type application/pdf, 5 bytes: no text, kept as the file"
        " 3.pdf)",
        "(resource file:///a.md)",
        "# A",
        "log: file:///log (text/plain, 7 bytes); only linked, its content is not here",
        "(image of type image/gif: left out, for it is not base64)",
    ]
    assert [(file.name, file.data) for file in outcome.files] == [
        ("1.png", b"\x89PNG\r"),
        ("2.mp3", b"RIFF"),
        ("3.pdf", b"%PDF-"),
    ]


async def test_beside_a_picture_the_structured_form_is_the_text() -> None:
    outcome = (await answer_of(content=[image("image/png")], structured_content={"n": 2})).outcome
    assert isinstance(outcome, Output)
    assert outcome.content.startswith('{"n": 2}\n(image of type image/png')


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ({"content": [{"type": "video", "uri": "file:///v"}]}, "(a part of type video file:///v"),
        ({"content": [{"type": "text", "text": "ok"}, {"type": "image"}]}, "ok\n(a part of type"),
        ({"content": ["ok"]}, "ok"),
        ({"content": [{"type": "text", "text": "ok", "annotations": "bad"}]}, "ok"),
        ({"content": None, "structuredContent": {"n": 1}}, '{"n": 1}'),
        ({"structuredContent": {"n": 1}}, '{"n": 1}'),
        ({"content": [], "structuredContent": [1, 2]}, "[1, 2]"),
        ({"content": [{"type": "text", "text": "ok"}], "structuredContent": 7}, "ok"),
    ],
)
def test_a_result_is_read_as_far_as_it_can_be(result: dict[str, Any], content: str) -> None:
    message = read_message(json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}))
    assert isinstance(message, mcp_types.JSONRPCResponse)
    validate_server_result("tools/call", "2025-11-25", message.result)
    read = mcp_types.CallToolResult.model_validate(message.result, by_name=False)
    outcome = outcome_of(read, BYTES_MAX)
    assert isinstance(outcome, Output)
    assert outcome.content.startswith(content)


def test_a_text_that_was_cut_within_a_character_is_read() -> None:
    content = r'[{"type": "text", "text": "a \ud83d b \ud83d\ude00"}]'
    message = read_message(f'{{"jsonrpc": "2.0", "id": 1, "result": {{"content": {content}}}}}')
    assert isinstance(message, mcp_types.JSONRPCResponse)
    assert message.result["content"][0]["text"] == "a \ufffd b \U0001f600"


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", "\ufeff"])
def test_a_message_may_begin_with_a_byte_order_mark(mark: Any) -> None:
    text: Any = '{"jsonrpc": "2.0", "id": 1, "result": {}}'
    message = read_message(mark + (text.encode() if isinstance(mark, bytes) else text))
    assert isinstance(message, mcp_types.JSONRPCResponse)
