from podium.registry.v1 import policy_pb2, policy_service_pb2, tool_pb2
from podium_kit.tool_kinds import KIND_FROM_WIRE, ToolKind
from podium_kit.wire import (
    duration_from_proto,
    money_from_proto,
    optional_money_from_proto,
    timestamp_to_proto,
)
from tool_registry.errors import InvalidPolicy
from tool_registry.models import (
    Activation,
    Binding,
    LearningStage,
    LearningStep,
    PolicySpec,
    PolicyVersion,
    Preferences,
    Selector,
    UnknownPriceRule,
)
from tool_registry.policies.convert_guardrails import check_guardrails, guardrail_from_proto
from tool_registry.policies.floors import FLOOR, PLATFORM_FLOOR
from tool_registry.policies.presets import (
    DEFAULT_POLICY,
    INSTRUCTIONS,
    PRESETS,
    preset_unknown_price_rule,
)

BALANCED = PRESETS[DEFAULT_POLICY]
RULE_TO_WIRE = {
    rule: policy_pb2.UnknownPriceRule.Value(f"UNKNOWN_PRICE_RULE_{rule.name}")
    for rule in UnknownPriceRule
}
RULE_FROM_WIRE = {number: rule for rule, number in RULE_TO_WIRE.items()}
STAGE_TO_WIRE = {
    stage: policy_pb2.LearningStage.Value(f"LEARNING_STAGE_{stage.name}") for stage in LearningStage
}
STAGE_FROM_WIRE = {number: stage for stage, number in STAGE_TO_WIRE.items()}
PRESET_NAMES = {
    policy_pb2.POLICY_PRESET_ACCURACY_FIRST: "accuracy-first",
    policy_pb2.POLICY_PRESET_COST_FIRST: "cost-first",
    policy_pb2.POLICY_PRESET_SPEED_FIRST: "speed-first",
    policy_pb2.POLICY_PRESET_BALANCED: "balanced",
}


def new_policy_from_proto(spec: policy_pb2.PolicySpec) -> PolicySpec:
    """A policy from a request. Raises InvalidPolicy. A stored policy is not checked again."""
    _check(spec)
    policy = policy_from_proto(spec)
    _check_weights(policy.preferences)
    return policy


def policy_from_proto(spec: policy_pb2.PolicySpec) -> PolicySpec:
    preset = PRESET_NAMES.get(spec.preset, "")
    return PolicySpec(
        name=spec.name,
        preferences=_preferences(spec, preset),
        allow=_selector(spec.allow),
        deny=_selector(spec.deny),
        required_tags=frozenset(spec.required_tags),
        price_ceiling=optional_money_from_proto(spec.price_ceiling),
        latency_ceiling_s=duration_from_proto(spec.latency_ceiling)
        if spec.HasField("latency_ceiling")
        else None,
        # The contract's meaning of unset: what a call costs must be known.
        unknown_price=RULE_FROM_WIRE.get(spec.unknown_price, UnknownPriceRule.REJECT),
        approval=_selector(spec.approval),
        instruction=spec.instruction or INSTRUCTIONS.get(preset, ""),
        training_consent=spec.training_consent,
        budget_ids=tuple(spec.budget_ids),
        approval_timeout_s=duration_from_proto(spec.approval_timeout),
        self_approval=spec.self_approval,
        no_presets=spec.no_presets,
        parallel_calls=spec.parallel_calls,
        explore=spec.learning.explore,
        guardrails=tuple(
            guardrail_from_proto(each, _selector(each.tools)) for each in spec.guardrails
        ),
        cache=spec.cache.SerializeToString() if spec.HasField("cache") else None,
        wire=spec.SerializeToString(deterministic=True),
    )


def stored_policy(wire: bytes) -> PolicySpec:
    return policy_from_proto(policy_pb2.PolicySpec.FromString(wire))


def preset_policies() -> list[PolicySpec]:
    return [
        policy_from_proto(
            policy_pb2.PolicySpec(
                name=name,
                preset=number,
                unknown_price=unknown_price_to_proto(preset_unknown_price_rule(name)),
            )
        )
        for number, name in PRESET_NAMES.items()
    ]


def policy_to_proto(policy: PolicyVersion) -> policy_pb2.Policy:
    spec = policy_pb2.PolicySpec.FromString(policy.spec.wire)
    spec.preferences.CopyFrom(preferences_to_proto(policy.spec.preferences))
    spec.unknown_price = unknown_price_to_proto(policy.spec.unknown_price)
    spec.instruction = policy.spec.instruction
    return policy_pb2.Policy(
        spec=spec,
        version=policy.version,
        create_time=timestamp_to_proto(policy.create_time),
        # People of another tenant are none of a tenant's business.
        created_by="" if policy.spec.name == PLATFORM_FLOOR else policy.created_by,
        active=policy.active,
        content_digest=policy.digest,
        model=policy.model,
    )


def learning_step_from_proto(step: policy_pb2.LearningStep, created_by: str) -> LearningStep:
    return LearningStep(
        policy=step.policy,
        cycle=step.cycle,
        stage=STAGE_FROM_WIRE[step.stage],
        model=step.model,
        summary=step.summary,
        facts=dict(step.facts),
        created_by=created_by,
    )


def learning_step_to_proto(step: LearningStep) -> policy_pb2.LearningStep:
    message = policy_pb2.LearningStep(
        policy=step.policy,
        cycle=step.cycle,
        stage=STAGE_TO_WIRE[step.stage],
        model=step.model,
        summary=step.summary,
        facts=step.facts,
        created_by=step.created_by,
    )
    if step.create_time is not None:
        message.create_time.CopyFrom(timestamp_to_proto(step.create_time))
    return message


def activation_to_proto(activation: Activation) -> policy_service_pb2.PolicyActivation:
    return policy_service_pb2.PolicyActivation(
        name=activation.name,
        version=activation.version,
        effective_time=timestamp_to_proto(activation.effective_time),
        create_time=timestamp_to_proto(activation.create_time),
        created_by=activation.created_by,
    )


def binding_to_proto(binding: Binding) -> policy_pb2.PolicyBinding:
    return policy_pb2.PolicyBinding(
        principal=binding.principal,
        policy=binding.policy,
        create_time=timestamp_to_proto(binding.create_time),
        created_by=binding.created_by,
    )


def preferences_to_proto(preferences: Preferences) -> policy_pb2.PreferenceVector:
    return policy_pb2.PreferenceVector(
        outcome=preferences.outcome,
        compute=preferences.compute,
        latency=preferences.latency,
        tools=preferences.tools,
    )


def preferences_from_proto(preferences: policy_pb2.PreferenceVector) -> Preferences:
    return Preferences(
        preferences.outcome, preferences.compute, preferences.latency, dict(preferences.tools)
    )


def unknown_price_to_proto(rule: UnknownPriceRule) -> policy_pb2.UnknownPriceRule.ValueType:
    return RULE_TO_WIRE[rule]


def _check(spec: policy_pb2.PolicySpec) -> None:
    rule = policy_pb2.UNKNOWN_PRICE_RULE_ADMIT_AT_CEILING
    if spec.unknown_price == rule and not spec.HasField("price_ceiling"):
        raise InvalidPolicy("unknown prices are admitted at the ceiling, but there is no ceiling")
    if spec.HasField("allow") and _selector(spec.allow).empty:
        raise InvalidPolicy("allow is set and names nothing; leave it unset to allow every tool")
    if spec.no_presets and spec.name not in (FLOOR, PLATFORM_FLOOR):
        raise InvalidPolicy(f"no_presets binds all episodes; set it in the policy named {FLOOR}")
    if spec.learning.explore and not spec.training_consent:
        raise InvalidPolicy("learning.explore is set without training_consent; set it to true")
    _check_replay_budget(spec)
    check_guardrails(spec.guardrails)
    _check_cache(spec)
    _check_ceilings(spec)


def _check_replay_budget(spec: policy_pb2.PolicySpec) -> None:
    if not spec.learning.HasField("replay_budget"):
        return
    if not spec.training_consent:
        raise InvalidPolicy(
            "learning.replay_budget is set without training_consent; set it to true"
        )
    if money_from_proto(spec.learning.replay_budget).amount <= 0:
        raise InvalidPolicy("learning.replay_budget must be above 0; leave it out for no replays")


def _check_cache(spec: policy_pb2.PolicySpec) -> None:
    if not spec.HasField("cache"):
        return
    if not spec.cache.quota_bytes:
        raise InvalidPolicy(
            "cache.quota_bytes is unset; state how many bytes of answers the tenant may store, for"
            " example 10485760"
        )
    if duration_from_proto(spec.cache.ttl) <= 0:
        raise InvalidPolicy("cache.ttl must be above 0 s; state how long answers are given again")


def _check_ceilings(spec: policy_pb2.PolicySpec) -> None:
    price = optional_money_from_proto(spec.price_ceiling)
    if spec.HasField("price_ceiling") and (price is None or price.amount < 0):
        raise InvalidPolicy("price_ceiling must be an amount of at least 0")
    for field in ("latency_ceiling", "approval_timeout"):
        if spec.HasField(field) and duration_from_proto(getattr(spec, field)) <= 0:
            raise InvalidPolicy(f"{field} must be above 0 s")


def _preferences(spec: policy_pb2.PolicySpec, preset: str) -> Preferences:
    """The weights as written over the preset's; without any, they are those of `balanced`."""
    given = spec.preferences
    written = {field.name: value for field, value in given.ListFields()}
    base = PRESETS.get(preset, Preferences(outcome=0.0)) if written or preset else BALANCED
    return Preferences(
        outcome=written.get("outcome", base.outcome),
        compute=written.get("compute", base.compute),
        latency=written.get("latency", base.latency),
        tools=dict(given.tools),
    )


def _check_weights(preferences: Preferences) -> None:
    weights = {"outcome": preferences.outcome, "compute": preferences.compute}
    weights |= {"latency": preferences.latency, **preferences.tools}
    if not any(weights.values()):
        raise InvalidPolicy("every weight is 0, so no episode is better than another; set outcome")


def _selector(selector: policy_pb2.ToolSelector) -> Selector:
    return Selector(
        names=frozenset(name.lower() for name in selector.names),
        kinds=frozenset(_kind(number) for number in selector.kinds),
        tags=frozenset(selector.tags),
        providers=frozenset(selector.providers),
        models=frozenset(selector.models),
    )


def _kind(number: tool_pb2.ToolKind.ValueType) -> ToolKind:
    if number not in KIND_FROM_WIRE:
        raise InvalidPolicy(f"a selector names the kind {number}, which is none")
    return KIND_FROM_WIRE[number]
