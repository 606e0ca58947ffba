"""Whatever a tool answers, of whatever kind: a typed failure in time, in bounded memory."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from integration.tool_adapters.misbehaving_grpc import METHOD, descriptor_set, misbehaving_grpc
from integration.tool_adapters.misbehaviour import Fault, MisbehavingServer
from integration.tool_adapters.tool_specs import (
    ANY_OBJECT,
    http_spec,
    llm_spec,
    mcp_http_spec,
    mcp_spec,
    tool_limits,
    tool_spec,
)
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2

KINDS = ["http", "llm_openai", "llm_anthropic", "mcp_stdio", "mcp_http", "grpc"]
DEGREES = {
    "type": "object",
    "properties": {"degrees": {"type": "string", "pattern": "^-?[0-9]+$"}},
    "required": ["degrees"],
}
# The largest message of all kinds is 16 MiB, which a reader may hold twice.
MEMORY_GROWTH_MAX = 64 * 1024 * 1024
BROKEN = {"UNAVAILABLE", "MALFORMED_OUTPUT"}
EXPECTED: dict[Fault, set[str]] = {
    # A line that is no message is not for the client, which goes on waiting.
    Fault.NOT_JSON: {"MALFORMED_OUTPUT", "TIMEOUT"},
    Fault.BINARY: {"MALFORMED_OUTPUT", "TIMEOUT", "TOOL_ERROR"},
    Fault.WRONG_SCHEMA: {"MALFORMED_OUTPUT"},
    Fault.HUNDRED_MEGABYTES: {"OUTPUT_TOO_LARGE"},
    Fault.HALF: BROKEN,
    Fault.RESET: BROKEN,
    Fault.HANG: {"TIMEOUT"},
}


@asynccontextmanager
async def misbehaving(kind: str, fault: Fault) -> AsyncIterator[tool_pb2.ToolSpec]:
    """A tool of that kind whose server answers with the fault."""
    common: dict[str, Any] = {"limits": tool_limits(timeout_s=4)}
    promised = common | {"result_json_schema": json.dumps(DEGREES)}
    if kind == "mcp_stdio":
        program = Path(__file__).with_name("misbehaviour.py")
        yield mcp_spec("weather", str(program), fault.value, **common)
    elif kind == "grpc":
        async with misbehaving_grpc(fault) as target:
            connection = tool_pb2.GrpcConnection(
                target=target, method=METHOD, descriptor_set=descriptor_set(), plaintext=True
            )
            yield tool_spec(
                "weather",
                "GRPC",
                ANY_OBJECT,
                connection=tool_pb2.Connection(grpc=connection),
                **promised,
            )
    else:
        wrong = {"content": "no list"} if kind == "mcp_http" else {"choices": "none"}
        async with MisbehavingServer(fault, wrong) as server:
            yield {
                "http": lambda: http_spec(server.url, **promised),
                "llm_openai": lambda: llm_spec(f"{server.url}/v1", **common),
                "llm_anthropic": lambda: llm_spec(
                    f"{server.url}/v1", "ANTHROPIC_MESSAGES", **common
                ),
                "mcp_http": lambda: mcp_http_spec("weather", f"{server.url}/mcp", **common),
            }[kind]()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_bad_answer_is_a_typed_failure_in_bounded_memory(
    adapters: AdaptersUnderTest, kind: str
) -> None:
    for fault in Fault:
        before = psutil.Process().memory_info().rss
        async with misbehaving(kind, fault) as spec:
            spec.name = f"{kind}-{fault}"
            answer = await adapters.call(adapters.register(spec))
        failure = failure_pb2.FailureKind.Name(answer.failure.kind)
        assert failure.removeprefix("FAILURE_KIND_") in EXPECTED[fault], (fault, answer)
        assert answer.failure.message
        # The ledger is told that a call was made, and what it used as far as anyone knows.
        assert answer.attempts == 1
        assert answer.HasField("usage")
        if fault is Fault.HUNDRED_MEGABYTES and kind != "grpc":
            assert psutil.Process().memory_info().rss - before < MEMORY_GROWTH_MAX
