"""What an MCP server answers is held to the tool's size, whichever part of it is large."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types
import pytest

from podium_kit.failures import FailureKind, ToolFailure
from tool_adapters.adapter import Answer, Output, ToolCall
from tool_adapters.calls.attempts import FAILURE_BYTES_MIN, Attempts, Progress
from tool_adapters.mcp.adapter import McpAdapter
from tool_adapters.models import (
    Limits,
    McpConnection,
    McpHttp,
    SideEffect,
    ToolDefinition,
    ToolKind,
)

BYTES_MAX = 10_000


class OneSession:
    """A pool of one session, whose server answers what a test says."""

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
    attempts = Attempts({ToolKind.MCP: McpAdapter(session)})
    tool = ToolDefinition(
        name="look_up",
        version=1,
        kind=ToolKind.MCP,
        parameters_schema={"type": "object"},
        result_schema=None,
        connection=McpConnection("look_up", McpHttp("https://mcp.example.com/mcp")),
        side_effect=SideEffect.PURE,
        limits=Limits(max_output_bytes=BYTES_MAX),
    )
    call = ToolCall("k", "e", "look_up", 1, {}, "", "", 0, "acme")
    return await attempts.make(Progress(call, tool))


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
