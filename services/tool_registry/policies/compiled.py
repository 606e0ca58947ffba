"""A policy's rules over one immutable snapshot of sets: a decision costs microseconds.

What is decided on is a choice: a tool, or one model of an llm tool. An llm tool is in
when any of its models is, and offers only those. The rules, in the order they are asked:

    deny > required tags > allow > unknown price > price ceiling > latency ceiling

The floors are asked first, each in the same order.
"""

from dataclasses import dataclass

from podium_kit.money import Money
from tool_registry.models import (
    ModelChoice,
    PolicyGuardrail,
    PolicySpec,
    Selector,
    ToolSpec,
    UnknownPriceRule,
)
from tool_registry.policies.floors import disabling

ANSWER = "answer"
OF_CALLS = frozenset({"input", "output"})


@dataclass(frozen=True, slots=True)
class Circumstances:
    price_known: bool
    worst_case: Money | None
    latency_p95_s: float | None


def rejection(policy: PolicySpec, spec: ToolSpec, choice: ModelChoice, now: Circumstances) -> str:
    """The rule that keeps a choice out, in words; empty when it is in."""
    if floor := disabling(policy):
        return f"{policy.name} is a preset, and {floor} allows none"
    for each in policy.floors:
        if binding := rejection(each.policy.spec, spec, choice, now):
            return f"{binding} ({each.origin})"
    return (
        _selection_rejection(policy, spec, choice)
        or _price_rejection(policy, now)
        or _latency_rejection(policy, now.latency_p95_s)
    )


def selects(policy: PolicySpec, spec: ToolSpec) -> bool:
    """Returns whether policy and floors leave in any choice of the tool, whatever it costs."""
    policies = (policy, *(floor.policy.spec for floor in policy.floors))
    return any(
        not any(_selection_rejection(each, spec, choice) for each in policies)
        for choice in spec.choices
    )


def needs_approval(policy: PolicySpec, spec: ToolSpec, choice: ModelChoice) -> bool:
    return bool(approval_rule(policy, spec, choice))


def approval_rule(policy: PolicySpec, spec: ToolSpec, choice: ModelChoice) -> str:
    """The rule by which a person approves each call, in words; empty where none does."""
    for floor in policy.floors:
        if matched := match(floor.policy.spec.approval, spec, choice):
            return f"{matched} ({floor.origin})"
    return match(policy.approval, spec, choice)


def call_guardrails(
    policy: PolicySpec, spec: ToolSpec, choice: ModelChoice
) -> tuple[PolicyGuardrail, ...]:
    """The guardrails that read a call, the floors' first."""
    return tuple(
        each
        for each in _guardrails(policy)
        if each.stages & OF_CALLS and (each.tools.empty or match(each.tools, spec, choice))
    )


def answer_guardrails(policy: PolicySpec) -> tuple[PolicyGuardrail, ...]:
    return tuple(each for each in _guardrails(policy) if ANSWER in each.stages)


def _guardrails(policy: PolicySpec) -> tuple[PolicyGuardrail, ...]:
    below = [each for floor in policy.floors for each in floor.policy.spec.guardrails]
    return tuple(dict.fromkeys((*below, *policy.guardrails)))


def match(selector: Selector, spec: ToolSpec, choice: ModelChoice) -> str:
    """The part of the choice that the selector names, in words; empty when none."""
    if named := selector.names & spec.ruled_names:
        return f"name {min(named)}"
    if spec.kind in selector.kinds:
        return f"kind {spec.kind.name}"
    if tags := selector.tags & choice.tags:
        return f"tag {min(tags)}"
    if choice.provider in selector.providers:
        return f"provider {choice.provider}"
    if choice.alias and (models := selector.models & {choice.alias, choice.model}):
        return f"model {min(models)}"
    return ""


def admission(policy: PolicySpec, spec: ToolSpec, choice: ModelChoice) -> str:
    matched = match(policy.allow, spec, choice)
    reason = f"allowed by {matched}" if matched else "nothing in the policy keeps it out"
    rule = approval_rule(policy, spec, choice)
    return f"{reason}; each call waits for a person's approval by {rule}" if rule else reason


def _selection_rejection(policy: PolicySpec, spec: ToolSpec, choice: ModelChoice) -> str:
    if denied := match(policy.deny, spec, choice):
        return f"denied by {denied}"
    if missing := policy.required_tags - choice.tags:
        return f"it lacks the required tag {min(missing)}"
    if not policy.allow.empty and not match(policy.allow, spec, choice):
        return "the policy allows only others"
    return ""


def _price_rejection(policy: PolicySpec, now: Circumstances) -> str:
    if not now.price_known:
        rejected = policy.unknown_price is UnknownPriceRule.REJECT
        return "its price is unknown, and the policy rejects unknown prices" if rejected else ""
    ceiling, worst = policy.price_ceiling, now.worst_case
    if ceiling is None or worst is None:
        return ""
    if worst.currency_code != ceiling.currency_code:
        return f"its price in {worst.currency_code} cannot be held under a ceiling of {ceiling}"
    return f"a call may cost {worst}, above the ceiling of {ceiling}" if worst > ceiling else ""


def _latency_rejection(policy: PolicySpec, latency_p95_s: float | None) -> str:
    ceiling = policy.latency_ceiling_s
    if ceiling is not None and latency_p95_s is not None and latency_p95_s > ceiling:
        return f"its p95 latency is {latency_p95_s:.3g} s, above the ceiling of {ceiling:g} s"
    return ""
