import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import grpc

from gateway.attachments.files import file_named
from gateway.clients import WATCH_PATIENCE_S, WATCH_PAUSE_S, answer, upstream_error
from gateway.convert import (
    answer_part_from_proto,
    attachment_data,
    direct_order_to_proto,
    direct_outcome_from_proto,
    embedding_order_to_proto,
    file_quota,
    vectors_from_proto,
)
from gateway.errors import CallLost
from gateway.limits.service import current_limits
from gateway.models import AnswerPart, EmbeddingOrder, ListOrder, Outcome, Vectors
from podium.episodes.v1 import direct_call_service_pb2 as pb
from podium.episodes.v1 import direct_call_service_pb2_grpc as pb_grpc
from podium_kit.rpc.errors import Unavailable

DIRECT_CALL_WAIT_S = 60.0


class MadeDirectCall:
    """A direct call that is made while its stream is read."""

    def __init__(
        self, stub: "pb_grpc.DirectCallServiceAsyncStub", request: pb.MakeDirectCallRequest
    ) -> None:
        self._stub = stub
        self._id = request.start.call_id
        self._stream = stub.MakeDirectCall(request)
        self._responses = aiter(self._stream)

    async def accepted(self) -> None:
        """Raises the error of a call that is rejected."""
        try:
            await anext(self._responses)
        except grpc.aio.AioRpcError as error:
            raise upstream_error(error) from error

    async def events(self) -> AsyncIterator[AnswerPart | pb.DirectCall]:
        """Yields parts of the answer, and the ended call last. Raises CallLost."""
        try:
            async for response in self._responses:
                if response.HasField("ended"):
                    yield response.ended
                    return
                yield answer_part_from_proto(response.part)
        except grpc.aio.AioRpcError as error:
            lost = upstream_error(error)
            if not isinstance(lost, Unavailable):
                raise lost from error
        # The process that made it is gone, and another one makes it.
        yield await ended_call(self._stub, self._id)

    async def ended(self) -> pb.DirectCall:
        async for event in self.events():
            if isinstance(event, pb.DirectCall):
                return event
        raise AssertionError("the events of a call end with the call")

    def leave(self) -> None:
        self._stream.cancel()


class DirectCallsClient:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = pb_grpc.DirectCallServiceStub(channel)

    async def make(self, call_id: str, spec: pb.DirectCallSpec) -> MadeDirectCall:
        """Starts it, or finds it started: the id makes a retry safe. It is made to its end."""
        request = _request(call_id, spec)
        return await self._made(request, ends_with_caller=False, with_parts=False)

    async def start(
        self, call_id: str, order: ListOrder, tool: str, alias: str, *, ends_with_caller: bool
    ) -> "DirectAnswer":
        """Starts it likewise; with `ends_with_caller` a client that goes away ends it."""
        request = _request(call_id, direct_order_to_proto(order, tool, alias))
        request.attachment_data.extend(attachment_data(order))
        request.file_quota.CopyFrom(file_quota(current_limits()))
        with file_named(order):
            made = self._made(request, ends_with_caller=ends_with_caller, with_parts=order.streams)
            return DirectAnswer(await made)

    async def embed(self, call_id: str, order: EmbeddingOrder) -> "MadeVectors":
        return MadeVectors(await self.make(call_id, embedding_order_to_proto(order)))

    async def _made(
        self, request: pb.StartDirectCallRequest, *, ends_with_caller: bool, with_parts: bool
    ) -> MadeDirectCall:
        wanted = pb.MakeDirectCallRequest(
            start=request, ends_with_caller=ends_with_caller, with_parts=with_parts
        )
        made = MadeDirectCall(self._stub, wanted)
        await made.accepted()
        return made


@dataclass(frozen=True)
class DirectAnswer:
    """A direct call of a model, in the gateway's own values."""

    made: MadeDirectCall

    async def events(self) -> AsyncIterator[AnswerPart | Outcome]:
        async for event in self.made.events():
            yield event if isinstance(event, AnswerPart) else direct_outcome_from_proto(event)

    def leave(self) -> None:
        self.made.leave()


@dataclass(frozen=True)
class MadeVectors:
    made: MadeDirectCall

    async def vectors(self) -> Vectors:
        return vectors_from_proto(await self.made.ended())


def _request(call_id: str, spec: pb.DirectCallSpec) -> pb.StartDirectCallRequest:
    limit = current_limits().running_episodes
    return pb.StartDirectCallRequest(call_id=call_id, spec=spec, running_limit=limit)


async def ended_call(stub: "pb_grpc.DirectCallServiceAsyncStub", call_id: str) -> pb.DirectCall:
    """The call, once it has ended. Raises CallLost after a minute without an answer."""
    request = pb.GetDirectCallRequest(call_id=call_id, wait=True)
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
