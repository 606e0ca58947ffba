from dataclasses import replace

from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import tool_pb2
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
    AnswerOptions,
    CallFailed,
    FunctionChoice,
    ModelConversation,
    ModelFunction,
    ModelFunctionCall,
    ModelMessage,
    Output,
    OutputFile,
    reply_json,
)
from tool_adapters.errors import InvalidCall
from tool_adapters.guardrails.convert import (
    decision_from_proto,
    decision_to_proto,
    guardrails_from_proto,
)
from tool_adapters.guardrails.models import Read
from tool_adapters.guardrails.texts import ReadableAnswer
from tool_adapters.models import JsonObject
from tool_adapters.response_cache.convert import cache_rule_from_proto
from tool_adapters.service import CallRequest

CHOICES = {
    pb.FUNCTION_CHOICE_UNSPECIFIED: FunctionChoice.AUTO,
    pb.FUNCTION_CHOICE_NONE: FunctionChoice.NONE,
    pb.FUNCTION_CHOICE_REQUIRED: FunctionChoice.REQUIRED,
}


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
        offered_tools=tuple(map(_offered, request.offered_tools)),
        guardrails=guardrails_from_proto(request.guardrails),
        cache=cache_rule_from_proto(request),
    )


def _conversation(request: pb.InvokeRequest) -> ModelConversation:
    given = request.conversation
    return ModelConversation(
        tuple(map(_message, given.messages)),
        given.temperature if given.HasField("temperature") else None,
        given.top_p if given.HasField("top_p") else None,
        given.seed if given.HasField("seed") else None,
        _options(given.options),
    )


def _message(given: orchestrator_pb.ConversationMessage) -> ModelMessage:
    calls = tuple(map(_function_call, given.function_calls))
    return ModelMessage(given.role, given.content, function_calls=calls, call_id=given.call_id)


def _options(given: pb.AnswerOptions) -> AnswerOptions:
    """Raises InvalidCall for a schema that is no JSON object."""
    return AnswerOptions(
        functions=tuple(replace(_offered(each), strict=each.strict) for each in given.functions),
        choice=CHOICES[given.function_choice],
        function_name=given.function_name,
        single_call=given.single_call,
        answer_schema=_schema(given.answer_json_schema),
        stop=tuple(given.stop),
        top_logprobs=given.top_logprobs if given.HasField("top_logprobs") else None,
    )


def _schema(text: str) -> JsonObject | None:
    try:
        schema = reply_json(text) if text else None
    except (CallFailed, ValueError, RecursionError) as error:
        raise InvalidCall("the schema of the answer is no JSON") from error
    if not isinstance(schema, dict | None):
        raise InvalidCall("the schema of the answer is no JSON object")
    return schema


def _offered(tool: orchestrator_pb.ToolDefinition | tool_pb2.ClientTool) -> ModelFunction:
    return ModelFunction(tool.name, tool.description, tool.parameters_json_schema)


def _function_call(call: orchestrator_pb.FunctionCall) -> ModelFunctionCall:
    return ModelFunctionCall(call.id, call.name, call.arguments_json)


def function_call_to_proto(call: ModelFunctionCall) -> orchestrator_pb.FunctionCall:
    return orchestrator_pb.FunctionCall(id=call.id, name=call.name, arguments_json=call.arguments)


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
        guardrails=map(decision_to_proto, answer.guardrails),
        cached=answer.cached,
    )
    if isinstance(answer.outcome, Output):
        response.output.CopyFrom(_output_to_proto(answer.outcome))
        response.function_calls.extend(map(function_call_to_proto, answer.outcome.function_calls))
        response.logprobs_json = answer.outcome.logprobs_json
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
        outcome=_output_from_proto(response)
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
        guardrails=tuple(map(decision_from_proto, response.guardrails)),
    )


def read_answer_to_proto(read: Read[ReadableAnswer]) -> pb.CheckAnswerResponse:
    response = pb.CheckAnswerResponse(decisions=map(decision_to_proto, read.decisions))
    if read.failure is None:
        response.answer = read.subject.answer
    else:
        response.failure.CopyFrom(failure_to_proto(read.failure))
    return response


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


def _output_from_proto(response: pb.InvokeResponse) -> Output:
    message = response.output
    files = (OutputFile(file.name, file.media_type, file.data) for file in message.files)
    return Output(
        message.content,
        message.content_json,
        tuple(files),
        tuple(map(_function_call, response.function_calls)),
        response.logprobs_json,
    )
