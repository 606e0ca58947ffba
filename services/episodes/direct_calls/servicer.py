"""podium.episodes.v1.DirectCallService."""

from typing import Any

import grpc

from episodes.attachments.convert import own_quota_from_proto
from episodes.direct_calls.convert import call_to_proto
from episodes.direct_calls.service import DirectCalls
from podium.episodes.v1 import direct_call_service_pb2 as pb
from podium.episodes.v1.direct_call_service_pb2_grpc import DirectCallServiceServicer

Context = grpc.aio.ServicerContext[Any, Any]


class DirectCallsServicer(DirectCallServiceServicer):
    """Converts, calls, converts."""

    def __init__(self, calls: DirectCalls) -> None:
        self._calls = calls

    async def StartDirectCall(
        self, request: pb.StartDirectCallRequest, context: Context
    ) -> pb.StartDirectCallResponse:
        stored = await self._calls.start(
            request.call_id,
            request.spec,
            request.attachment_data,
            own_quota=own_quota_from_proto(request.file_quota),
            running_limit=request.running_limit,
        )
        return pb.StartDirectCallResponse(call=call_to_proto(stored))

    async def GetDirectCall(
        self, request: pb.GetDirectCallRequest, context: Context
    ) -> pb.GetDirectCallResponse:
        find = self._calls.wait if request.wait else self._calls.get
        return pb.GetDirectCallResponse(call=call_to_proto(await find(request.call_id)))
