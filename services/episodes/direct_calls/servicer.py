from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc

from episodes.attachments.checks import own_quota_from_proto
from episodes.direct_calls.call import DirectCall, StoredCall
from episodes.direct_calls.service import DirectCallOrder, DirectCalls
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.episodes.v1 import direct_call_service_pb2 as pb
from podium.episodes.v1.direct_call_service_pb2_grpc import DirectCallServiceServicer
from podium_kit.wire import money_to_proto, timestamp_to_proto

Context = grpc.aio.ServicerContext[Any, Any]


class DirectCallsServicer(DirectCallServiceServicer):
    def __init__(self, calls: DirectCalls) -> None:
        self._calls = calls

    async def StartDirectCall(
        self, request: pb.StartDirectCallRequest, context: Context
    ) -> pb.StartDirectCallResponse:
        stored = await self._calls.start(_order(request))
        return pb.StartDirectCallResponse(call=call_to_proto(stored))

    async def MakeDirectCall(
        self, request: pb.MakeDirectCallRequest, context: Context
    ) -> AsyncIterator[pb.MakeDirectCallResponse]:
        order, accepted = _order(request.start), False
        making = self._calls.make(
            order, ends_with_caller=request.ends_with_caller, with_parts=request.with_parts
        )
        async with aclosing(making) as events:
            async for event in events:
                if isinstance(event, adapters_pb.AnswerPart):
                    yield pb.MakeDirectCallResponse(part=event)
                    continue
                call = call_to_proto(event)
                # Its caller has it, and it may be long.
                call.ClearField("spec")
                if accepted:
                    yield pb.MakeDirectCallResponse(ended=call)
                else:
                    accepted = True
                    yield pb.MakeDirectCallResponse(accepted=call)

    async def GetDirectCall(
        self, request: pb.GetDirectCallRequest, context: Context
    ) -> pb.GetDirectCallResponse:
        find = self._calls.wait if request.wait else self._calls.get
        return pb.GetDirectCallResponse(call=call_to_proto(await find(request.call_id)))


def _order(request: pb.StartDirectCallRequest) -> DirectCallOrder:
    return DirectCallOrder(
        call_id=request.call_id,
        spec=request.spec,
        attachment_data=request.attachment_data,
        own_quota=own_quota_from_proto(request.file_quota),
        running_limit=request.running_limit,
    )


def call_to_proto(stored: StoredCall) -> pb.DirectCall:
    call = DirectCall.of(stored)
    message = pb.DirectCall(
        id=stored.id,
        spec=call.spec,
        ended=stored.ended,
        ledger_key=stored.key,
        policy_name=call.toolset.policy_name,
        policy_version=call.toolset.policy_version,
        tool_version=call.tool.version,
        model_alias=call.alias,
        create_time=timestamp_to_proto(stored.create_time),
    )
    if not stored.ended:
        return message
    answer = adapters_pb.InvokeResponse.FromString(stored.answer or b"")
    if answer.HasField("failure"):
        message.failure.CopyFrom(answer.failure)
    message.content = answer.output.content
    message.content_json = answer.output.content_json
    message.files.extend(answer.output.files)
    message.finish_reason = answer.finish_reason
    message.usage.CopyFrom(answer.usage)
    message.function_calls.extend(answer.function_calls)
    message.logprobs_json = answer.logprobs_json
    message.guardrails.extend(answer.guardrails)
    message.cached = answer.cached
    if answer.HasField("latency"):
        message.latency.CopyFrom(answer.latency)
    if stored.cost is not None:
        message.cost.CopyFrom(money_to_proto(stored.cost))
    return message
