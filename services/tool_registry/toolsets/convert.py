"""Toolsets and decisions on the wire.

A toolset of ten thousand tools takes a tenth of a second to write out, so what is written
is kept for as long as the toolset, and every tool's part for as long as the tool's view.
"""

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from podium.registry.v1 import tool_pb2, toolset_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_kit.rpc.errors import InvalidArgument
from podium_kit.wire import digest_of, duration_to_proto, money_to_proto
from podium_kit.wire.values import KIND_FROM_WIRE, KIND_TO_WIRE
from tool_registry.models import (
    FIND_TOOLS,
    CallEstimate,
    ClientTool,
    ResolvedTool,
    ToolAccess,
    Toolset,
)
from tool_registry.policies.compiled import answer_guardrails
from tool_registry.policies.convert import preferences_to_proto, unknown_price_to_proto
from tool_registry.policies.convert_guardrails import guardrails_to_proto
from tool_registry.toolsets.prices import max_output_tokens
from tool_registry.toolsets.resolution import Fitting

FIND_TOOLS_DEFINITION = toolset_pb2.ResolvedTool(
    name=FIND_TOOLS,
    version=1,
    kind=tool_pb2.TOOL_KIND_FIND_TOOLS,
    description="Finds more tools where none of these fits. Say in words what is to be done.",
    terms="$0",
    parameters_json_schema=(
        '{"type": "object", "properties": {"query": {"type": "string", "minLength": 1,'
        ' "maxLength": 300}}, "required": ["query"], "additionalProperties": false}'
    ),
    side_effect=tool_pb2.SIDE_EFFECT_PURE,
)
NO_ARGUMENTS = '{"type": "object", "properties": {}, "additionalProperties": false}'


class ToolsetWriter:
    def __init__(self) -> None:
        self._replies: WeakKeyDictionary[Toolset, pb.ResolveToolsetResponse] = WeakKeyDictionary()
        self._tools: WeakKeyDictionary[ResolvedTool, toolset_pb2.ResolvedTool] = WeakKeyDictionary()

    def reply(self, toolset: Toolset) -> pb.ResolveToolsetResponse:
        if toolset not in self._replies:
            self._replies[toolset] = pb.ResolveToolsetResponse(
                toolset=self._toolset(toolset), decisions=decisions_to_proto(toolset.decisions)
            )
        return self._replies[toolset]

    def _toolset(self, toolset: Toolset) -> toolset_pb2.Toolset:
        """The toolset, with the digest over everything else in it."""
        policy = toolset.policy.spec
        message = toolset_pb2.Toolset(
            tools=[self._tool(tool) for tool in toolset.tools],
            policy_name=policy.name,
            policy_version=toolset.policy.version,
            preferences=preferences_to_proto(policy.preferences),
            instruction=policy.instruction,
            unknown_price=unknown_price_to_proto(policy.unknown_price),
            training_consent=policy.training_consent,
            budget_ids=policy.budget_ids,
            self_approval=policy.self_approval,
            parallel_calls=policy.parallel_calls,
            explore=policy.explore if policy.training_consent else 0.0,
            model=toolset.policy.model,
            guardrails=guardrails_to_proto(answer_guardrails(policy)),
        )
        if toolset.finder:
            message.tools.append(FIND_TOOLS_DEFINITION)
        message.tools.extend(map(_client_tool_to_proto, toolset.client_tools))
        if policy.approval_timeout_s:
            message.approval_timeout.CopyFrom(duration_to_proto(policy.approval_timeout_s))
        if policy.price_ceiling is not None:
            message.price_ceiling.CopyFrom(money_to_proto(policy.price_ceiling))
        message.digest = digest_of(message)
        return message

    def _tool(self, tool: ResolvedTool) -> toolset_pb2.ResolvedTool:
        if tool not in self._tools:
            self._tools[tool] = _resolved_to_proto(tool)
        return self._tools[tool]


def fitting_from_proto(request: pb.ResolveToolsetRequest) -> Fitting | None:
    if not request.tools_max:
        return None
    if request.tools_max < 0:
        raise InvalidArgument(f"tools_max is {request.tools_max}; give 1 or more, or 0 for all")
    if request.tool_names:
        raise InvalidArgument("give tool_names or tools_max, not both")
    if not request.task.strip():
        raise InvalidArgument("task is empty; tools_max keeps the tools that fit it best")
    return Fitting(
        request.task,
        request.tools_max,
        frozenset(request.known_tool_names),
        frozenset(KIND_FROM_WIRE[kind] for kind in request.attached if kind in KIND_FROM_WIRE),
    )


def client_tools_from_proto(offered: Iterable[tool_pb2.ClientTool]) -> list[ClientTool]:
    """The functions of an episode's caller; one without a schema takes no arguments."""
    return [
        ClientTool(tool.name, tool.description, tool.parameters_json_schema or NO_ARGUMENTS)
        for tool in offered
    ]


def decisions_to_proto(decisions: Iterable[ToolAccess]) -> list[toolset_pb2.ToolDecision]:
    return [
        toolset_pb2.ToolDecision(
            name=one.name,
            allowed=one.allowed,
            reason=one.reason,
            needs_approval=one.needs_approval,
        )
        for one in decisions
    ]


def _client_tool_to_proto(tool: ClientTool) -> toolset_pb2.ResolvedTool:
    return toolset_pb2.ResolvedTool(
        name=tool.name,
        version=1,
        kind=tool_pb2.TOOL_KIND_CLIENT,
        description=tool.description,
        terms="$0",
        parameters_json_schema=tool.parameters_schema,
        side_effect=tool_pb2.SIDE_EFFECT_EFFECTFUL,
    )


def _resolved_to_proto(tool: ResolvedTool) -> toolset_pb2.ResolvedTool:
    spec = tool_pb2.ToolSpec.FromString(tool.version.spec.wire)
    message = toolset_pb2.ResolvedTool(
        name=spec.name,
        version=tool.version.version,
        kind=spec.kind,
        description=tool.description,
        terms=tool.terms,
        estimates=map(_estimate_to_proto, tool.estimates),
        parameters_json_schema=tool.parameters_schema,
        side_effect=spec.side_effect,
        weight=tool.weight,
        sku=spec.sku,
        model_aliases=[choice.alias for choice in tool.models],
        model_skus={choice.alias: choice.sku for choice in tool.models},
        model_names={model.alias: model.model for model in spec.connection.llm.models},
        timeout=duration_to_proto(tool.version.spec.timeout_s),
        max_output_tokens=max_output_tokens(tool.version.spec),
        needs_approval=tool.needs_approval,
        capabilities=spec.capabilities,
        embeds=tool.version.spec.embeds,
        gives_answer=tool.version.spec.gives_answer,
        prompt_bytes=len(spec.connection.llm.system_prompt.encode()),
        model_takes={
            choice.alias: toolset_pb2.MediaKinds(
                kinds=[KIND_TO_WIRE[kind] for kind in sorted(choice.takes)]
            )
            for choice in tool.models
            if choice.takes
        },
    )
    message.delegates = tool.version.spec.delegates
    if tool.executor is not None:
        message.executor.CopyFrom(_resolved_to_proto(tool.executor))
        message.executor_argument = tool.version.spec.executor_argument
    if spec.connection.HasField("podium"):
        message.podium.CopyFrom(spec.connection.podium)
        message.result_json_schema = spec.result_json_schema
        message.max_output_bytes = spec.limits.max_output_bytes
    if tool.price_per_call is not None:
        message.price_per_call.CopyFrom(money_to_proto(tool.price_per_call))
    return message


def _estimate_to_proto(estimate: CallEstimate) -> toolset_pb2.CallEstimate:
    message = toolset_pb2.CallEstimate(model_alias=estimate.model_alias, weight=estimate.weight)
    if estimate.cost is not None:
        message.cost.CopyFrom(money_to_proto(estimate.cost))
    if estimate.latency_s is not None:
        message.latency.CopyFrom(duration_to_proto(estimate.latency_s))
    return message
