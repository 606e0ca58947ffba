"""Concurrency, breakers and cancellation."""

import asyncio

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from integration.tool_adapters.tool_specs import http_spec, tool_limits
from integration.tool_adapters.web_server import WebServer
from podium.common.v1 import failure_pb2
from tool_adapters.calls.breaker import FAILURES_TO_OPEN


async def test_no_more_calls_are_in_flight_than_the_tool_allows(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    spec = http_spec(f"{web.url}/slow/0.05", limits=tool_limits(concurrency=3))
    name = adapters.register(spec)
    answers = await asyncio.gather(*(adapters.call(name) for _ in range(12)))
    assert all(answer.HasField("output") for answer in answers)
    assert web.in_flight_max <= 3


async def test_the_circuit_breaker_opens_for_a_tool_that_keeps_failing(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/reset"))
    for _ in range(FAILURES_TO_OPEN):
        await adapters.call(name)
    answer = await adapters.call(name)
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert answer.failure.retry_after.ToNanoseconds() > 0
    assert answer.attempts == 0
    assert web.requests["/reset"] == FAILURES_TO_OPEN


async def test_a_cancelled_rpc_cancels_the_call(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/slow/3600"))
    running = asyncio.create_task(adapters.call(name))
    await web.until("in_flight", 1)
    running.cancel()
    await web.until("cancelled", 1)
