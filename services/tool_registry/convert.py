"""Tools and toolsets on the wire, and back."""

import hashlib

from podium.registry.v1 import tool_pb2, toolset_pb2
from tool_registry.convert_connections import check_connection
from tool_registry.convert_policies import preferences_to_proto, unknown_price_to_proto
from tool_registry.errors import InvalidTool
from tool_registry.models import (
    PLATFORM,
    Decision,
    Facts,
    ModelChoice,
    ResolvedTool,
    ToolKind,
    Toolset,
    ToolSpec,
    ToolVersion,
)
from tool_registry.prices import max_output_tokens
from wire import (
    duration_from_proto,
    duration_to_proto,
    money_to_proto,
    optional_money_from_proto,
    timestamp_to_proto,
)

DEFAULT_TIMEOUT_S = 30.0
KIND_TO_WIRE = {kind: tool_pb2.ToolKind.Value(f"TOOL_KIND_{kind.name}") for kind in ToolKind}
SIDE_EFFECTS = set(tool_pb2.SideEffect.values()) - {tool_pb2.SIDE_EFFECT_UNSPECIFIED}
KIND_FROM_WIRE: dict[int, ToolKind] = {number: kind for kind, number in KIND_TO_WIRE.items()}


def kind_from_proto(number: int) -> ToolKind:
    """The kind. Raises InvalidTool when it is unset: it selects the adapter."""
    if number not in KIND_FROM_WIRE:
        raise InvalidTool("kind is unset; it selects the adapter")
    return KIND_FROM_WIRE[number]


def new_spec_from_proto(spec: tool_pb2.ToolSpec) -> ToolSpec:
    """A spec somebody wants registered. Raises InvalidTool.

    What is stored is not checked again: a rule of today must not hide a tool of yesterday.
    """
    if spec.side_effect not in SIDE_EFFECTS:
        raise InvalidTool("side_effect is unset; retries depend on it")
    check_connection(spec)
    return _spec_from_proto(spec)


def _spec_from_proto(spec: tool_pb2.ToolSpec) -> ToolSpec:
    return ToolSpec(
        name=spec.name,
        kind=kind_from_proto(spec.kind),
        connection_kind=spec.connection.WhichOneof("target") or "",
        description=spec.description,
        parameters_schema=spec.parameters_json_schema,
        result_schema=spec.result_json_schema,
        models=tuple(_choice_from_proto(model) for model in spec.connection.llm.models),
        max_output_tokens=spec.connection.llm.max_output_tokens,
        sku=spec.sku,
        timeout_s=duration_from_proto(spec.limits.timeout) or DEFAULT_TIMEOUT_S,
        tags=frozenset(spec.tags),
        provider=spec.provider,
        wire=spec.SerializeToString(deterministic=True),
    )


def stored_spec(wire: bytes) -> ToolSpec:
    """A spec as it was stored."""
    return _spec_from_proto(tool_pb2.ToolSpec.FromString(wire))


def tool_to_proto(tool: ToolVersion) -> tool_pb2.Tool:
    """One version of a tool."""
    message = tool_pb2.Tool(
        spec=tool_pb2.ToolSpec.FromString(tool.spec.wire),
        version=tool.version,
        content_digest=tool.digest,
        create_time=timestamp_to_proto(tool.create_time),
        created_by=tool.created_by,
        shared=tool.owner == PLATFORM,
    )
    if tool.deprecate_time is not None:
        message.deprecate_time.CopyFrom(timestamp_to_proto(tool.deprecate_time))
    return message


def decisions_to_proto(decisions: tuple[Decision, ...]) -> list[toolset_pb2.ToolDecision]:
    """Why each tool is in or out."""
    return [
        toolset_pb2.ToolDecision(name=one.name, allowed=one.allowed, reason=one.reason)
        for one in decisions
    ]


def toolset_to_proto(toolset: Toolset) -> toolset_pb2.Toolset:
    """The frozen toolset, with the digest over everything else in it."""
    policy = toolset.policy.spec
    message = toolset_pb2.Toolset(
        tools=[_resolved_to_proto(tool) for tool in toolset.tools],
        policy_name=policy.name,
        policy_version=toolset.policy.version,
        preferences=preferences_to_proto(policy.preferences),
        instruction=policy.instruction,
        unknown_price=unknown_price_to_proto(policy.unknown_price),
        training_consent=policy.training_consent,
    )
    if policy.price_ceiling is not None:
        message.price_ceiling.CopyFrom(money_to_proto(policy.price_ceiling))
    message.digest = hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()
    return message


def facts_from_proto(facts: tool_pb2.ToolFacts) -> Facts:
    """Measured behaviour."""
    return Facts(
        facts.tool_name,
        facts.model_alias,
        facts.sample_count,
        duration_from_proto(facts.latency_p50),
        duration_from_proto(facts.latency_p95),
        facts.success_rate,
        optional_money_from_proto(facts.mean_cost),
    )


def facts_to_proto(facts: Facts) -> tool_pb2.ToolFacts:
    """Measured behaviour."""
    message = tool_pb2.ToolFacts(
        tool_name=facts.tool_name,
        model_alias=facts.model_alias,
        sample_count=facts.sample_count,
        latency_p50=duration_to_proto(facts.latency_p50_s),
        latency_p95=duration_to_proto(facts.latency_p95_s),
        success_rate=facts.success_rate,
    )
    if facts.mean_cost is not None:
        message.mean_cost.CopyFrom(money_to_proto(facts.mean_cost))
    return message


def _choice_from_proto(model: tool_pb2.LlmModel) -> ModelChoice:
    return ModelChoice(
        model.alias,
        model.model,
        model.sku,
        model.description,
        model.provider,
        frozenset(model.tags),
    )


def _resolved_to_proto(tool: ResolvedTool) -> toolset_pb2.ResolvedTool:
    spec = tool_pb2.ToolSpec.FromString(tool.version.spec.wire)
    message = toolset_pb2.ResolvedTool(
        name=spec.name,
        version=tool.version.version,
        kind=spec.kind,
        description=tool.description,
        parameters_json_schema=tool.parameters_schema,
        side_effect=spec.side_effect,
        weight=tool.weight,
        sku=spec.sku,
        model_skus={choice.alias: choice.sku for choice in tool.models},
        timeout=duration_to_proto(tool.version.spec.timeout_s),
        max_output_tokens=max_output_tokens(tool.version.spec),
        needs_approval=tool.needs_approval,
        capabilities=spec.capabilities,
    )
    if tool.price_per_call is not None:
        message.price_per_call.CopyFrom(money_to_proto(tool.price_per_call))
    return message
