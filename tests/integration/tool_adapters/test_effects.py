import asyncio
import json
from pathlib import Path

import grpc
import pytest

from embedded_servers import Database
from integration.misbehaviour.database_wire import database_wire
from integration.misbehaviour.faults import Fault
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.tool_specs import http_spec, tool_limits
from integration.tool_adapters.web_server import WebServer
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2

EFFECTFUL = tool_pb2.SIDE_EFFECT_EFFECTFUL


async def test_the_same_key_returns_the_first_answer(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
    first = await adapters.call(name, {"item": "tea"}, key="e/1/tool/0")
    second = await adapters.call(name, {"item": "tea"}, key="e/1/tool/0")
    assert second == first
    assert web.requests["/echo/order"] == 1


async def test_the_same_key_with_other_content_is_rejected(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
    await adapters.call(name, {"item": "tea"}, key="e/1/tool/0")
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await adapters.call(name, {"item": "milk"}, key="e/1/tool/0")
    assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert web.requests["/echo/order"] == 1


async def test_two_tenants_may_use_the_same_key(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
    await adapters.call(name, {"item": "tea"}, key="e/1/tool/0")
    request = pb.InvokeRequest(
        key="e/1/tool/0",
        episode_id="e",
        tool_name=name,
        tool_version=1,
        arguments_json=json.dumps({"item": "milk"}),
    )
    async with adapters.as_caller(tenant="other") as other:
        assert (await other.Invoke(request)).HasField("output")
    assert web.requests["/echo/order"] == 2


async def test_a_repetition_waits_for_the_call_that_runs(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/slow/0.3", side_effect=EFFECTFUL))
    answers = await asyncio.gather(*(adapters.call(name, key="e/1/tool/0") for _ in range(5)))
    assert all(answer == answers[0] for answer in answers)
    assert answers[0].output.content == "at last"
    assert web.requests["/slow"] == 1


async def test_the_effect_of_a_cancelled_call_is_unknown(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    spec = http_spec(f"{web.url}/slow/3600", side_effect=EFFECTFUL, limits=tool_limits(5))
    name = adapters.register(spec)
    running = asyncio.create_task(adapters.call(name, key="e/1/tool/0"))
    await web.until("in_flight", 1)
    running.cancel()
    await web.until("cancelled", 1)
    answer = await adapters.call(name, key="e/1/tool/0")
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_CANCELLED
    assert "nobody knows whether it took effect" in answer.failure.message
    assert web.requests["/slow"] == 1


async def test_a_call_that_cannot_be_claimed_is_not_made_and_may_be_tried_again(
    database: Database, tmp_path: Path, web: WebServer
) -> None:
    async with (
        database_wire(await database("tool_adapters")) as wire,
        running_registry() as registry,
        run_adapters(wire.database_url, tmp_path, registry) as adapters,
    ):
        name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
        wire.fault = Fault.RESET
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await adapters.call(name, key="e/1/tool/0")
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
        assert web.requests["/echo/order"] == 0
        wire.fault = None
        assert (await adapters.call(name, key="e/1/tool/0")).HasField("output")
    assert web.requests["/echo/order"] == 1
