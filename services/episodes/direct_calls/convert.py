"""Calls on the wire."""

from episodes.direct_calls.call import DirectCall
from episodes.direct_calls.models import StoredCall
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.episodes.v1 import direct_call_service_pb2 as pb
from podium_kit.wire import money_to_proto, timestamp_to_proto


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
    if stored.cost is not None:
        message.cost.CopyFrom(money_to_proto(stored.cost))
    return message
