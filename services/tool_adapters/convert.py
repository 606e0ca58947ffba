from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium_kit.failures import ToolFailure
from podium_kit.wire import (
    duration_from_proto,
    duration_to_proto,
    failure_from_proto,
    failure_to_proto,
    usage_from_proto,
    usage_to_proto,
)
from podium_kit.wire.values import file_from_proto
from tool_adapters.adapter import (
    Answer,
    DelegateTool,
    ModelConversation,
    ModelMessage,
    Output,
    OutputFile,
)
from tool_adapters.service import CallRequest


def call_from_proto(request: pb.InvokeRequest) -> CallRequest:
    return CallRequest(
        key=request.key,
        episode_id=request.episode_id,
        tool_name=request.tool_name,
        tool_version=request.tool_version,
        arguments_json=request.arguments_json,
        task=request.task,
        context=request.context,
        max_output_tokens=request.max_output_tokens,
        model_alias=request.model_alias,
        fallback_models=tuple(request.fallback_models),
        conversation=_conversation(request) if request.HasField("conversation") else None,
        files=tuple(map(file_from_proto, request.files)),
        offered_tools=tuple(
            DelegateTool(tool.name, tool.description, tool.parameters_json_schema)
            for tool in request.offered_tools
        ),
    )


def _conversation(request: pb.InvokeRequest) -> ModelConversation:
    given = request.conversation
    return ModelConversation(
        tuple(ModelMessage(each.role, each.content) for each in given.messages),
        given.temperature if given.HasField("temperature") else None,
        given.top_p if given.HasField("top_p") else None,
    )


def answer_to_proto(answer: Answer) -> pb.InvokeResponse:
    response = pb.InvokeResponse(
        usage=usage_to_proto(answer.usage),
        sku=answer.sku,
        latency=duration_to_proto(answer.latency_s),
        attempts=answer.attempts,
        model_alias=answer.model_alias,
        latency_modelled=answer.latency_modelled,
        unsent=answer.unsent,
        finish_reason=answer.finish_reason,
    )
    if isinstance(answer.outcome, Output):
        response.output.CopyFrom(_output_to_proto(answer.outcome))
    else:
        response.failure.CopyFrom(failure_to_proto(answer.outcome))
    return response


def delivered_to_proto(outcome: int | ToolFailure) -> pb.DeliverWebhookResponse:
    """The status of a receiver's answer, or why there is none."""
    if isinstance(outcome, ToolFailure):
        return pb.DeliverWebhookResponse(failure=failure_to_proto(outcome))
    return pb.DeliverWebhookResponse(status_code=outcome)


def answer_from_proto(response: pb.InvokeResponse) -> Answer:
    """Reads an answer of the effect log."""
    has_output = response.HasField("output")
    return Answer(
        outcome=_output_from_proto(response.output)
        if has_output
        else failure_from_proto(response.failure),
        usage=usage_from_proto(response.usage),
        sku=response.sku,
        latency_s=duration_from_proto(response.latency),
        attempts=response.attempts,
        model_alias=response.model_alias,
        latency_modelled=response.latency_modelled,
        unsent=response.unsent,
        finish_reason=response.finish_reason,
    )


def stored_answer(answer: Answer) -> bytes:
    """Serializes an answer for the effect log."""
    return answer_to_proto(answer).SerializeToString(deterministic=True)


def answer_from_store(stored: bytes) -> Answer:
    return answer_from_proto(pb.InvokeResponse.FromString(stored))


def _output_to_proto(output: Output) -> pb.ToolOutput:
    files = (
        pb.OutputFile(name=file.name, media_type=file.media_type, data=file.data)
        for file in output.files
    )
    return pb.ToolOutput(content=output.content, content_json=output.content_json, files=files)


def _output_from_proto(message: pb.ToolOutput) -> Output:
    files = (OutputFile(file.name, file.media_type, file.data) for file in message.files)
    return Output(message.content, message.content_json, tuple(files))
