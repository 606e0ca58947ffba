from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio

from callers import channel_to
from gateway.clients_direct_calls import DirectCallsClient
from gateway.errors import CallLost
from gateway.limits.models import TenantLimits
from gateway.limits.service import holding_to
from gateway.mcp_server.clients import PolicyToolsClient
from gateway.mcp_server.models import ToolOrder
from podium.episodes.v1 import direct_call_service_pb2 as pb
from podium.episodes.v1 import direct_call_service_pb2_grpc as rpc

CALL_ID = "01900000-0000-7000-8000-000000000001"


class Restarting(rpc.DirectCallServiceServicer):
    def __init__(self) -> None:
        self.away = 2

    async def GetDirectCall(self, request: pb.GetDirectCallRequest, context: Any) -> Any:
        if self.away:
            self.away -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this replica is going away")
        call = pb.DirectCall(id=request.call_id, ended=True, content="42")
        return pb.GetDirectCallResponse(call=call)


@pytest_asyncio.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    restarting = Restarting()  # type: ignore[abstract]
    async with channel_to(rpc.add_DirectCallServiceServicer_to_server, restarting) as opened:
        yield opened


async def test_a_restart_is_waited_for(channel: grpc.aio.Channel) -> None:
    assert (await DirectCallsClient(channel).outcome(CALL_ID)).answer == "42"


async def test_a_restart_is_waited_for_by_mcp_clients_too(channel: grpc.aio.Channel) -> None:
    assert (await PolicyToolsClient(channel, channel).result(CALL_ID)).content == "42"


async def test_a_call_that_is_lost_is_not_to_be_made_again(
    channel: grpc.aio.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.clients_direct_calls.WATCH_PATIENCE_S", 0.0)
    with pytest.raises(CallLost, match=f"/v1/direct-calls/{CALL_ID}") as lost:
        await DirectCallsClient(channel).outcome(CALL_ID)
    assert lost.value.metadata == {"call_id": CALL_ID, "retryable": "false"}


class Calls(rpc.DirectCallServiceServicer):
    def __init__(self) -> None:
        self.started: list[pb.StartDirectCallRequest] = []

    async def StartDirectCall(self, request: pb.StartDirectCallRequest, context: Any) -> Any:
        self.started.append(request)
        return pb.StartDirectCallResponse()


async def test_a_call_is_held_to_the_limit_of_the_tenant() -> None:
    calls = Calls()  # type: ignore[abstract]
    order = ToolOrder("calculator", "{}", policy="", budget=None, labels={})
    limits = TenantLimits(requests_per_s=1, burst=1, concurrency=1, running_episodes=7)
    async with channel_to(rpc.add_DirectCallServiceServicer_to_server, calls) as channel:
        with holding_to(limits):
            await PolicyToolsClient(channel, channel).start("0190", order)
    assert [each.running_limit for each in calls.started] == [7]
