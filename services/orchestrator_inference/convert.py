import math

from orchestrator_inference.errors import InvalidSampling
from orchestrator_inference.models import (
    DEFAULT_MAX_TOKENS,
    Action,
    ActionToolCall,
    CallEstimate,
    Competence,
    Decision,
    EngineModel,
    Left,
    Message,
    Observation,
    PastTurn,
    Preferences,
    PromptMode,
    PromptTool,
    ResultSection,
    Sampling,
    Situation,
    TurnRules,
)
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import toolset_pb2
from podium_kit.rpc.errors import InvalidArgument
from podium_kit.wire import (
    duration_from_proto,
    duration_to_proto,
    failure_from_proto,
    failure_to_proto,
    optional_money_from_proto,
    usage_to_proto,
)

SECTIONS = {
    pb.RESULT_SECTION_UNSPECIFIED: ResultSection.ATTEMPT,
    pb.RESULT_SECTION_DOCUMENT: ResultSection.DOCUMENT,
    pb.RESULT_SECTION_CODE: ResultSection.CODE,
    pb.RESULT_SECTION_ATTEMPT: ResultSection.ATTEMPT,
}
MODES = {
    pb.PROMPT_MODE_UNSPECIFIED: PromptMode.STATELESS,
    pb.PROMPT_MODE_STATELESS: PromptMode.STATELESS,
    pb.PROMPT_MODE_CHAT: PromptMode.CHAT,
    pb.PROMPT_MODE_TEMPLATE: PromptMode.TEMPLATE,
}
ROLES = ("system", "user", "assistant")


def situation_from_proto(request: pb.NextActionRequest) -> Situation:
    if not request.key:
        raise InvalidArgument("key is unset; give <episode id>/<turn>/model/0")
    return Situation(
        key=request.key,
        task=request.task,
        model=request.model,
        prompt_mode=MODES.get(request.prompt_mode, PromptMode.STATELESS),
        instruction=request.instruction,
        tools=tuple(_tool_from_proto(tool) for tool in request.tools),
        turns=tuple(_turn_from_proto(turn) for turn in request.turns),
        history=tuple(_message_from_proto(message) for message in request.history),
        sampling=_sampling_from_proto(request.sampling),
        rules=_rules_from_proto(request),
        preferences=_preferences_from_proto(request),
        left=_left_from_proto(request),
        parallel_calls=request.parallel_calls,
    )


def _rules_from_proto(request: pb.NextActionRequest) -> TurnRules:
    names = {tool.name for tool in request.tools}
    if unknown := [name for name in request.must_call if name not in names]:
        raise InvalidArgument(f"must_call names {unknown[0]}, which is not among tools")
    must_call = () if request.must_answer else tuple(request.must_call)
    answering = tuple(tool.name for tool in request.tools if tool.gives_answer)
    return TurnRules(request.must_answer, must_call, request.answer_json_schema, answering)


def _tool_from_proto(tool: pb.ToolDefinition) -> PromptTool:
    if not tool.name:
        raise InvalidArgument("tools.name is unset")
    section = SECTIONS.get(tool.section, ResultSection.ATTEMPT)
    estimates = tuple(_estimate_from_proto(estimate) for estimate in tool.estimates)
    return PromptTool(
        tool.name,
        tool.description,
        tool.parameters_json_schema,
        section,
        tool.terms,
        estimates,
        tool.gives_answer,
    )


def _estimate_from_proto(estimate: toolset_pb2.CallEstimate) -> CallEstimate:
    timed = estimate.HasField("latency")
    return CallEstimate(
        estimate.model_alias,
        optional_money_from_proto(estimate.cost),
        duration_from_proto(estimate.latency) if timed else None,
        estimate.weight,
        _competence_from_proto(estimate.competence) if estimate.HasField("competence") else None,
    )


def _competence_from_proto(record: toolset_pb2.Competence) -> Competence:
    return Competence(record.similar_task_count, record.right_count, record.probability)


def _preferences_from_proto(request: pb.NextActionRequest) -> Preferences | None:
    if not request.HasField("preferences"):
        return None
    given = request.preferences
    return Preferences(given.outcome, given.compute, given.latency)


def _left_from_proto(request: pb.NextActionRequest) -> Left:
    timed = request.HasField("time_left")
    return Left(
        optional_money_from_proto(request.money_left),
        duration_from_proto(request.time_left) if timed else None,
    )


def _message_from_proto(message: pb.ConversationMessage) -> Message:
    if message.role not in ROLES:
        raise InvalidArgument(f"history.role is {message.role!r}; give one of {', '.join(ROLES)}")
    return Message(message.role, message.content)


def _turn_from_proto(turn: pb.PastTurn) -> PastTurn:
    observations = tuple(
        Observation(
            _call_from_proto(entry.call),
            entry.content,
            failure_from_proto(entry.failure) if entry.HasField("failure") else None,
        )
        for entry in turn.observations
    )
    return PastTurn(turn.completion_text, _action_from_proto(turn.action), observations)


def _action_from_proto(action: pb.Action) -> Action:
    decision = action.WhichOneof("decision")
    return Action(
        thought=action.thought,
        calls=tuple(_call_from_proto(call) for call in action.tool_calls.calls),
        final_answer=action.final_answer if decision == "final_answer" else None,
        malformed=failure_from_proto(action.malformed) if decision == "malformed" else None,
    )


def _call_from_proto(call: pb.ToolCall) -> ActionToolCall:
    return ActionToolCall(call.index, call.tool_name, call.arguments_json, call.model_call_id)


def _sampling_from_proto(sampling: pb.Sampling) -> Sampling:
    top_p = sampling.top_p if sampling.HasField("top_p") else 1.0
    if math.isinf(sampling.temperature):
        raise InvalidSampling("sampling.temperature is infinite; give a number")
    if not top_p:
        raise InvalidSampling("sampling.top_p is 0.0; give more than 0 and at most 1")
    seed = sampling.seed if sampling.HasField("seed") else None
    max_tokens = sampling.max_tokens or DEFAULT_MAX_TOKENS
    return Sampling(sampling.temperature, top_p, seed, max_tokens)


def decision_to_proto(decision: Decision) -> pb.NextActionResponse:
    """Sampling is returned with its defaults filled in."""
    completion, constraint = decision.completion, decision.constraint
    return pb.NextActionResponse(
        action=_action_to_proto(decision.action),
        completion_text=completion.text,
        prompt_token_ids=completion.prompt_token_ids,
        completion_token_ids=completion.token_ids,
        completion_logprobs=completion.logprobs,
        finish_reason=completion.finish_reason,
        usage=usage_to_proto(completion.usage),
        model_version=completion.model_version,
        constraint_digest=constraint.digest if constraint else "",
        constraint_json_schema=constraint.schema_json if constraint else "",
        sku=decision.sku,
        latency=duration_to_proto(completion.latency_s),
        sampling=_sampling_to_proto(decision.sampling),
        engine=completion.engine,
        prompt_digest=decision.prompt_digest,
        left_out=decision.left_out,
        preference_line=decision.preference_line,
    )


def _action_to_proto(action: Action) -> pb.Action:
    if action.malformed is not None:
        return pb.Action(thought=action.thought, malformed=failure_to_proto(action.malformed))
    if action.final_answer is not None:
        return pb.Action(thought=action.thought, final_answer=action.final_answer)
    calls = [
        pb.ToolCall(
            index=call.index,
            tool_name=call.tool_name,
            arguments_json=call.arguments_json,
            model_call_id=call.model_call_id,
        )
        for call in action.calls
    ]
    return pb.Action(thought=action.thought, tool_calls=pb.ToolCalls(calls=calls))


def _sampling_to_proto(sampling: Sampling) -> pb.Sampling:
    return pb.Sampling(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sampling.seed,
        max_tokens=sampling.max_tokens,
    )


def model_to_proto(model: EngineModel, sku: str, prompt_mode: PromptMode) -> pb.Model:
    """A model's version is its name: adapters are published under fresh names."""
    return pb.Model(
        name=model.name,
        version=model.version or model.name,
        sku=sku,
        is_default=model.is_default,
        context_tokens=model.context_tokens,
        prompt_mode=pb.PromptMode.Value(f"PROMPT_MODE_{prompt_mode.name}"),
    )
