import asyncio
import time

import grpc

from gateway.attachments.files import file_named
from gateway.clients import WATCH_PATIENCE_S, WATCH_PAUSE_S, answer
from gateway.convert import (
    attachment_data,
    direct_order_to_proto,
    direct_outcome_from_proto,
    embedding_order_to_proto,
    file_quota,
    vectors_from_proto,
)
from gateway.errors import CallLost
from gateway.limits.service import current_limits
from gateway.models import EmbeddingOrder, ListOrder, Outcome, Vectors
from podium.episodes.v1 import direct_call_service_pb2, direct_call_service_pb2_grpc
from podium_kit.rpc.errors import Unavailable

DIRECT_CALL_WAIT_S = 60.0


class DirectCallsClient:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = direct_call_service_pb2_grpc.DirectCallServiceStub(channel)

    async def start(self, call_id: str, order: ListOrder, tool: str, alias: str) -> None:
        """Starts it, or finds it started: the id makes a retry safe."""
        spec = direct_order_to_proto(order, tool, alias)
        request = direct_call_service_pb2.StartDirectCallRequest(
            call_id=call_id,
            spec=spec,
            attachment_data=attachment_data(order),
            file_quota=file_quota(current_limits()),
            running_limit=current_limits().running_episodes,
        )
        with file_named(order):
            await answer(self._stub.StartDirectCall(request))

    async def embed(self, call_id: str, order: EmbeddingOrder) -> None:
        spec = embedding_order_to_proto(order)
        request = direct_call_service_pb2.StartDirectCallRequest(
            call_id=call_id, spec=spec, running_limit=current_limits().running_episodes
        )
        await answer(self._stub.StartDirectCall(request))

    async def vectors(self, call_id: str) -> Vectors:
        return vectors_from_proto(await ended_call(self._stub, call_id))

    async def outcome(self, call_id: str) -> Outcome:
        return direct_outcome_from_proto(await ended_call(self._stub, call_id))


async def ended_call(
    stub: "direct_call_service_pb2_grpc.DirectCallServiceAsyncStub", call_id: str
) -> direct_call_service_pb2.DirectCall:
    """The call, once it has ended. Raises CallLost after a minute without an answer."""
    request = direct_call_service_pb2.GetDirectCallRequest(call_id=call_id, wait=True)
    seen_at = time.monotonic()
    while True:
        try:
            # The service waits for half a minute and then answers as things stand.
            reply = await answer(stub.GetDirectCall(request, timeout=DIRECT_CALL_WAIT_S))
        except Unavailable as error:
            if time.monotonic() - seen_at >= WATCH_PATIENCE_S:
                raise CallLost(call_id) from error
            await asyncio.sleep(WATCH_PAUSE_S)
            continue
        if reply.call.ended:
            return reply.call
        seen_at = time.monotonic()
