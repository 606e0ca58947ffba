"""A policy compiled to one immutable object that decides in microseconds."""

from dataclasses import dataclass

from money import Money
from tool_registry.models import (
    Decision,
    ModelChoice,
    PolicySpec,
    Selector,
    ToolSpec,
    UnknownPriceRule,
)


@dataclass(frozen=True)
class Circumstances:
    """What is known of a tool now: the dearest call and the slowest usual one."""

    worst_case: Money | None
    latency_p95_s: float | None


def matches(selector: Selector, spec: ToolSpec) -> bool:
    """Whether any list of the selector names the tool; models are matched one by one."""
    return (
        spec.name in selector.names
        or spec.kind in selector.kinds
        or not selector.tags.isdisjoint(spec.tags)
        or spec.provider in selector.providers
    )


def allowed_models(policy: PolicySpec, spec: ToolSpec) -> tuple[ModelChoice, ...]:
    """The models of an llm tool that the policy leaves."""
    return tuple(choice for choice in spec.models if _model_allowed(policy, choice))


def decide(policy: PolicySpec, spec: ToolSpec, now: Circumstances) -> Decision:
    """Whether the policy lets the tool in, and which rule decided. Deny beats allow."""
    reason = _refusal(policy, spec, now)
    if reason:
        return Decision(spec.name, False, reason)
    return Decision(spec.name, True, "allowed by name" if not policy.allow.empty else "not denied")


def _refusal(policy: PolicySpec, spec: ToolSpec, now: Circumstances) -> str:
    if matches(policy.deny, spec):
        return "the policy denies it"
    if not _passes_allow_list(policy.allow, spec):
        return "the policy allows only other tools"
    if missing := policy.required_tags - spec.tags:
        return f"it lacks the required tag {min(missing)}"
    if spec.models and not allowed_models(policy, spec):
        return "the policy leaves none of its models"
    return _price_refusal(policy, now.worst_case) or _latency_refusal(policy, now.latency_p95_s)


def _price_refusal(policy: PolicySpec, worst_case: Money | None) -> str:
    if worst_case is None:
        refused = policy.unknown_price is UnknownPriceRule.REFUSE
        return "its price is unknown and the policy refuses unknown prices" if refused else ""
    if policy.price_ceiling is not None and worst_case > policy.price_ceiling:
        return f"a call may cost {worst_case}, above the ceiling of {policy.price_ceiling}"
    return ""


def _latency_refusal(policy: PolicySpec, latency_p95_s: float | None) -> str:
    ceiling = policy.latency_ceiling_s
    if ceiling is not None and latency_p95_s is not None and latency_p95_s > ceiling:
        return f"its p95 latency is {latency_p95_s:.2g} s, above the ceiling of {ceiling:g} s"
    return ""


def _passes_allow_list(allow: Selector, spec: ToolSpec) -> bool:
    named_models = any({m.alias, m.model} & allow.models for m in spec.models)
    return allow.empty or matches(allow, spec) or named_models


def _model_allowed(policy: PolicySpec, choice: ModelChoice) -> bool:
    names = {choice.alias, choice.model}
    if names & policy.deny.models or choice.provider in policy.deny.providers:
        return False
    if not policy.deny.tags.isdisjoint(choice.tags):
        return False
    return not policy.allow.models or bool(names & policy.allow.models)
