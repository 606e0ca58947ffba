import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from typing import Any

import httpx2
import mcp_types
import pytest
from google.protobuf import struct_pb2
from mcp.client import streamable_http
from mcp.shared.message import SessionMessage

from podium_kit.failures import FailureKind
from tool_adapters.adapter import CallFailed
from tool_adapters.grpc.methods import VALUES_MAX, _as_json
from tool_adapters.llm.embeddings import NUMBERS_MAX, read_embeddings
from tool_adapters.mcp import guard
from tool_adapters.mcp.stdio import TOO_LARGE, stdio_streams
from tool_adapters.replies import reply_json

_ONE = struct_pb2.Value(number_value=1)
MANY = b"[" + b"{}," * 60_000 + b"{}]"
VECTORS = b'{"data": [{"index": 0, "embedding": [' + b"0," * NUMBERS_MAX + b"0]}]}"


@pytest.mark.parametrize(
    "read",
    [
        lambda: reply_json(MANY),
        lambda: reply_json(MANY.decode()),
        lambda: reply_json(b"[" * 200 + b"]" * 200),
        lambda: read_embeddings(VECTORS, 1),
        lambda: _as_json(_values(VALUES_MAX + 1)),
        lambda: _as_json(struct_pb2.Struct(fields={str(n): _ONE for n in range(VALUES_MAX)})),
    ],
    ids=["bytes", "text", "deep", "vectors", "list of gRPC", "map of gRPC"],
)
def test_too_many_values_are_the_tools_failure(read: Callable[[], Any]) -> None:
    with pytest.raises(CallFailed, match="ask for less") as raised:
        read()
    assert raised.value.failure.kind is FailureKind.OUTPUT_TOO_LARGE


def _values(count: int) -> struct_pb2.ListValue:
    return struct_pb2.ListValue(values=[_ONE] * count)


def test_as_many_values_as_fit_are_read() -> None:
    assert len(json.loads(_as_json(_values(1000)))) == 1000
    assert len(reply_json(b'["' + b"[{,\\n" * 200_000 + b'"]')[0]) == 800_000


def test_bytes_of_utf_16_do_not_hide_values() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        reply_json("[1]".encode("utf-16"))


def test_an_mcp_message_over_http_of_many_values_is_not_parsed() -> None:
    assert guard
    with pytest.raises(httpx2.StreamError, match=TOO_LARGE):
        vars(streamable_http)["jsonrpc_message_adapter"].validate_json(MANY, by_name=False)


async def test_an_mcp_message_of_a_process_of_many_values_is_not_parsed() -> None:
    program = f"input(); print('[' + '{{}},' * {MANY.count(b'{')} + '1]', flush=True); input()"

    async def start() -> Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program),
            stdin=PIPE,
            stdout=PIPE,
            limit=1 << 20,
            start_new_session=True,
        )

    request = mcp_types.JSONRPCRequest(jsonrpc="2.0", id=7, method="tools/call")
    async with stdio_streams(start) as (received, sent):
        await sent.send(SessionMessage(request))
        answer = await received.receive()
        assert isinstance(answer, SessionMessage)
        assert isinstance(answer.message, mcp_types.JSONRPCError)
        assert (answer.message.id, answer.message.error.message) == (7, TOO_LARGE)
