import json
from collections.abc import Iterable

from gateway.limits.models import TenantLimits
from gateway.models import (
    AnswerPart,
    CallPart,
    ClientCall,
    ClientTool,
    EarlierMessage,
    EmbeddingOrder,
    KeptRequest,
    ListOrder,
    MadeCall,
    OrchestratorModel,
    OrderFile,
    Outcome,
    PriorMessages,
    ProgressNote,
    PromptMode,
    SentMessage,
    StopReason,
    ToolResults,
    Vectors,
)
from gateway.tally import Tally, added
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb2
from podium.common.v1 import attachment_pb2, usage_pb2
from podium.episodes.v1 import direct_call_service_pb2, episode_pb2, episode_service_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb2
from podium.registry.v1 import tool_pb2
from podium_kit.attachments import AttachedFile
from podium_kit.metering import InvalidUsage
from podium_kit.rpc.identity import Scope, ScopeMissing, current_identity
from podium_kit.wire import (
    duration_to_proto,
    failure_from_proto,
    json_values,
    money_to_proto,
    optional_money_from_proto,
    quantities_from_proto,
)
from podium_kit.wire.values import attachment_from_proto, attachment_to_proto

PREVIEW_CHARACTERS = 400
# How models say that they stopped at their limit.
OUT_OF_TOKENS = "length"
DECLINED = ("content_filter", "refusal")
_PROMPT_MODES = {
    None: orchestrator_pb2.PROMPT_MODE_UNSPECIFIED,
    PromptMode.STATELESS: orchestrator_pb2.PROMPT_MODE_STATELESS,
    PromptMode.CHAT: orchestrator_pb2.PROMPT_MODE_CHAT,
    PromptMode.TEMPLATE: orchestrator_pb2.PROMPT_MODE_TEMPLATE,
}
_CHOICES = {
    "auto": adapters_pb2.FUNCTION_CHOICE_UNSPECIFIED,
    "none": adapters_pb2.FUNCTION_CHOICE_NONE,
    "required": adapters_pb2.FUNCTION_CHOICE_REQUIRED,
}
_STOP_REASONS = {
    episode_pb2.StopReason.Value(f"STOP_REASON_{reason.name}"): reason for reason in StopReason
}


def order_to_proto(order: ListOrder) -> episode_pb2.EpisodeSpec:
    spec = episode_pb2.EpisodeSpec(
        task=order.task,
        model=order.model,
        policy=order.policy,
        tool_names=order.tool_names,
        turn_limit=order.turn_limit,
        prompt_mode=_PROMPT_MODES[order.prompt_mode],
        sampling=orchestrator_pb2.Sampling(
            temperature=order.temperature,
            top_p=order.top_p,
            seed=order.seed,
            max_tokens=order.max_tokens,
        ),
        history=[_message_to_proto(message) for message in order.history],
        labels=order.labels,
        client_tools=map(_client_tool_to_proto, order.client_tools),
        first_tool_names=order.first_tools,
        answer_json_schema=order.answer_schema,
        output_token_limit=order.max_tokens,
        attachments=_attachments(order),
        parallel_calls=order.parallel_calls,
        stream_answer=order.streams,
    )
    if order.time_limit_s is not None:
        spec.time_limit.CopyFrom(duration_to_proto(order.time_limit_s))
    if order.budget is not None:
        spec.budget.CopyFrom(money_to_proto(order.budget))
    return spec


def direct_order_to_proto(
    order: ListOrder, tool: str, alias: str
) -> direct_call_service_pb2.DirectCallSpec:
    spec = direct_call_service_pb2.DirectCallSpec(
        tool_name=tool,
        model_alias=alias,
        policy=order.policy,
        messages=map(_sent_message_to_proto, order.messages),
        sampling=orchestrator_pb2.Sampling(
            temperature=order.temperature,
            top_p=order.top_p,
            seed=order.seed,
            max_tokens=order.max_tokens,
        ),
        labels=order.labels,
        attachments=_attachments(order),
        options=_answer_options(order),
    )
    if order.budget is not None:
        spec.budget.CopyFrom(money_to_proto(order.budget))
    return spec


def _sent_message_to_proto(message: SentMessage) -> orchestrator_pb2.ConversationMessage:
    calls = (
        orchestrator_pb2.FunctionCall(id=call.id, name=call.name, arguments_json=call.arguments)
        for call in message.calls
    )
    return orchestrator_pb2.ConversationMessage(
        role=message.role,
        content=message.content,
        function_calls=calls,
        call_id=message.call_id,
    )


def _answer_options(order: ListOrder) -> adapters_pb2.AnswerOptions:
    style = order.style
    named = order.first_tools[0] if style.choice == "auto" and order.first_tools else ""
    return adapters_pb2.AnswerOptions(
        functions=map(_client_tool_to_proto, order.client_tools),
        function_choice=_CHOICES[style.choice],
        function_name=named,
        single_call=style.single_call,
        answer_json_schema=order.answer_schema,
        stop=style.stop,
        top_logprobs=style.top_logprobs,
    )


def _client_tool_to_proto(tool: ClientTool) -> tool_pb2.ClientTool:
    return tool_pb2.ClientTool(
        name=tool.name,
        description=tool.description,
        parameters_json_schema=tool.parameters_schema,
        strict=tool.strict,
    )


def answer_part_from_proto(part: adapters_pb2.AnswerPart) -> AnswerPart:
    calls = (
        CallPart(each.index, each.call.id, each.call.name, each.call.arguments_json)
        for each in part.function_calls
    )
    return AnswerPart(part.text, tuple(calls))


def _attachments(order: ListOrder) -> list[attachment_pb2.Attachment]:
    return [attachment_to_proto(each.file.attachment) for each in order.files]


def attachment_data(order: ListOrder) -> list[bytes]:
    return [each.file.data for each in order.files if each.file.data]


def file_quota(limits: TenantLimits) -> attachment_pb2.FileQuota:
    """Returns the tenant's own quota of files; empty where it has none."""
    return attachment_pb2.FileQuota(files=limits.files, size_bytes=limits.file_bytes)


def embedding_order_to_proto(order: EmbeddingOrder) -> direct_call_service_pb2.DirectCallSpec:
    arguments: dict[str, object] = {"input": order.texts}
    if order.dimensions is not None:
        arguments["dimensions"] = order.dimensions
    spec = direct_call_service_pb2.DirectCallSpec(
        tool_name=order.tool,
        model_alias=order.alias,
        policy=order.policy,
        arguments_json=json.dumps(arguments, ensure_ascii=False),
        labels=order.labels,
    )
    if order.budget is not None:
        spec.budget.CopyFrom(money_to_proto(order.budget))
    return spec


def vectors_from_proto(call: direct_call_service_pb2.DirectCall) -> Vectors:
    failure = failure_from_proto(call.failure) if call.HasField("failure") else None
    found = json.loads(call.content_json or "{}")
    return Vectors(
        packed=tuple(found.get("embeddings", ())),
        failure=failure,
        cost=optional_money_from_proto(call.cost),
        tally=tally_of(call.usage.quantities),
        policy_name=call.policy_name,
        policy_version=call.policy_version,
    )


def direct_outcome_from_proto(call: direct_call_service_pb2.DirectCall) -> Outcome:
    failure = failure_from_proto(call.failure) if call.HasField("failure") else None
    cost = optional_money_from_proto(call.cost)
    cut = call.finish_reason == OUT_OF_TOKENS
    return Outcome(
        episode_id=call.id,
        stop_reason=StopReason.OUTPUT_LIMIT if cut else StopReason.ANSWERED,
        answer=call.content,
        failure=failure,
        turn_count=1,
        tool_call_count=1,
        cost=cost,
        unpriced_call_count=int(cost is None),
        tally=tally_of(call.usage.quantities),
        policy_name=call.policy_name,
        policy_version=call.policy_version,
        declined=call.finish_reason if call.finish_reason in DECLINED else "",
        client_calls=tuple(
            ClientCall(0, index, made.name, made.arguments_json, made.id)
            for index, made in enumerate(call.function_calls)
        ),
        logprobs_json=call.logprobs_json,
        cached=call.cached,
    )


def _message_to_proto(message: EarlierMessage) -> orchestrator_pb2.ConversationMessage:
    return orchestrator_pb2.ConversationMessage(role=message.role, content=message.content)


def results_to_proto(results: ToolResults) -> episode_service_pb2.AnswerToolCallsRequest:
    return episode_service_pb2.AnswerToolCallsRequest(
        episode_id=results.episode_id,
        turn=results.turn,
        results=[
            episode_service_pb2.ClientResult(call_index=index, content=content)
            for index, content in results.contents
        ],
    )


def require_content(message: episode_pb2.Episode | episode_pb2.EpisodeEvent) -> None:
    if message.content_withheld:
        raise ScopeMissing(current_identity(), [Scope.TRAJECTORIES_READ])


def kept_request_from_proto(spec: episode_pb2.EpisodeSpec, label: str) -> KeptRequest:
    offered = (
        ClientTool(tool.name, tool.description, tool.parameters_json_schema)
        for tool in spec.client_tools
    )
    return KeptRequest(spec.labels.get(label, ""), tuple(spec.tool_names), tuple(offered))


def prior_messages_from_proto(episode: episode_pb2.Episode, param: str) -> PriorMessages:
    """Its history, its task, its answer if it has one; its files, which `param` brings along."""
    history = (EarlierMessage(message.role, message.content) for message in episode.spec.history)
    answer = [EarlierMessage("assistant", episode.answer)] if episode.answer else []
    files = (
        OrderFile(AttachedFile(attachment_from_proto(each), b""), param)
        for each in episode.spec.attachments
    )
    return PriorMessages(
        (*history, EarlierMessage("user", episode.spec.task), *answer), tuple(files)
    )


def outcome_from_proto(episode: episode_pb2.Episode) -> Outcome:
    return Outcome(
        episode_id=episode.id,
        stop_reason=_STOP_REASONS.get(episode.stop_reason),
        answer=episode.answer,
        failure=failure_from_proto(episode.failure) if episode.HasField("failure") else None,
        turn_count=episode.turn_count,
        tool_call_count=episode.tool_call_count,
        all_tool_calls_failed=episode.all_tool_calls_failed,
        cost=optional_money_from_proto(episode.cost),
        unpriced_call_count=episode.unpriced_call_count,
        tally=tally_of(episode.usage),
        policy_name=episode.policy_name,
        policy_version=episode.policy_version,
        warnings=tuple(episode.warnings),
    )


def tally_of(quantities: Iterable[usage_pb2.Quantity]) -> Tally:
    """Summed up; a usage that cannot be read is the ledger's to explain, and counts nothing."""
    try:
        found = quantities_from_proto(quantities)
    except InvalidUsage:
        return {}
    return added(*({entry.dimension: entry.amount} for entry in found))


def client_calls_from_proto(event: episode_pb2.EpisodeEvent) -> tuple[ClientCall, ...]:
    return tuple(
        ClientCall(event.turn, call.index, call.tool_name, call.arguments_json)
        for call in event.client_calls_requested.calls
    )


def made_call_from_proto(event: episode_pb2.EpisodeEvent) -> MadeCall:
    observation = event.tool_returned.observation
    call = observation.call
    return MadeCall(
        turn=event.turn,
        index=call.index,
        name=call.tool_name,
        arguments=call.arguments_json or "{}",
        content=observation.content,
        problem=observation.failure.message,
    )


def event_from_proto(event: episode_pb2.EpisodeEvent) -> ProgressNote | Outcome:
    if event.HasField("finished"):
        return outcome_from_proto(event.finished.episode)
    used = (event.action_decided.usage, event.tool_returned.usage)
    quantities = [quantity for usage in used for quantity in usage.quantities]
    return ProgressNote(event.turn, _line(event), tally_of(quantities))


def _line(event: episode_pb2.EpisodeEvent) -> str:
    match event.WhichOneof("event"):
        case "action_decided":
            return _decision_line(event.turn, event.action_decided.action)
        case "tool_returned":
            return _observation_line(event.tool_returned.observation)
        case "approval_requested":
            return f"{event.approval_requested.call.tool_name} waits for a person's approval\n"
        case "client_calls_requested":
            names = ", ".join(call.name for call in client_calls_from_proto(event))
            return f"{names} waits for its client\n"
        case "verifier_called" | "judged":
            return "The answer is being checked\n"
        case _:
            return f"{len(event.started.tool_names)} tools are allowed\n"


def _decision_line(turn: int, action: orchestrator_pb2.Action) -> str:
    thought = f"{action.thought.strip()} " if action.thought else ""
    match action.WhichOneof("decision"):
        case "tool_calls":
            calls = (f"{call.tool_name}({call.arguments_json})" for call in action.tool_calls.calls)
            return f"Turn {turn}: {thought}{', '.join(calls)}\n"
        case "malformed":
            return f"Turn {turn}: {thought}not a well-formed action: {action.malformed.message}\n"
        case _:
            return f"Turn {turn}: {thought}final answer\n"


def _observation_line(observation: orchestrator_pb2.Observation) -> str:
    name = observation.call.tool_name
    if observation.HasField("failure"):
        return f"{name} failed: {observation.failure.message}\n"
    content = observation.content
    more = "..." if len(content) > PREVIEW_CHARACTERS else ""
    return f"{name} returned {content[:PREVIEW_CHARACTERS]}{more}\n"


def model_from_proto(model: orchestrator_pb2.Model) -> OrchestratorModel:
    return OrchestratorModel(model.name, model.version, model.is_default, model.context_tokens)


def event_json(event: episode_pb2.EpisodeEvent) -> str:
    return json.dumps(json_values(event))


def event_kind(event: episode_pb2.EpisodeEvent) -> str:
    """Its name in the contract, for example "tool_returned"."""
    return event.WhichOneof("event") or "unknown"
