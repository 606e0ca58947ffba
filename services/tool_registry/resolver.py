"""From tools, a policy, prices and measurements to a frozen toolset. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from money import Money
from tool_registry.compiled_policy import Circumstances, admission, match, refusal
from tool_registry.errors import ToolNotFound, ToolRefused
from tool_registry.models import (
    Decision,
    ModelChoice,
    PolicySpec,
    PolicyVersion,
    Price,
    ResolvedTool,
    Toolset,
    ToolSpec,
    ToolVersion,
)
from tool_registry.prices import bounds_of, worst_case
from tool_registry.tool_views import (
    FactsByModel,
    describe_tool,
    facts_of,
    parameters_with_models,
)


@dataclass(frozen=True)
class Known:
    """What is known of the tools now, besides what their owners wrote."""

    prices: Mapping[str, Price]
    facts: FactsByModel
    llm_input_tokens_max: int


def resolve(tools: Sequence[ToolVersion], policy: PolicyVersion, known: Known) -> Toolset:
    """What an episode may use; `tools` are in name order, and so is the toolset."""
    decisions, resolved = [], []
    for tool in tools:
        refusals = _refusals(policy.spec, tool.spec, known)
        choices = [choice for choice, reason in refusals if not reason]
        decisions.append(_decision(policy.spec, tool.spec, refusals))
        if choices:
            resolved.append(_resolve_tool(tool, choices, policy.spec, known))
    return Toolset(tuple(resolved), policy, tuple(decisions))


def narrowed(toolset: Toolset, wanted: Sequence[str]) -> Toolset:
    """Only the wanted tools. Raises ToolNotFound, ToolRefused."""
    if not wanted:
        return toolset
    decisions = {decision.name: decision for decision in toolset.decisions}
    for name in wanted:
        if name not in decisions:
            raise ToolNotFound(name)
        if not decisions[name].allowed:
            raise ToolRefused(name, decisions[name].reason)
    names = set(wanted)
    tools = tuple(tool for tool in toolset.tools if tool.version.spec.name in names)
    return Toolset(tools, toolset.policy, toolset.decisions)


Refusals = Sequence[tuple[ModelChoice, str]]


def _refusals(policy: PolicySpec, spec: ToolSpec, known: Known) -> Refusals:
    return [
        (choice, refusal(policy, spec, choice, _circumstances(spec, choice, known)))
        for choice in spec.choices
    ]


def _circumstances(spec: ToolSpec, choice: ModelChoice, known: Known) -> Circumstances:
    facts = facts_of(spec, choice, known.facts)
    return Circumstances(
        price_known=choice.sku in known.prices,
        worst_case=_worst_case(spec, choice, known),
        latency_p95_s=None if facts is None else facts.latency_p95_s,
    )


def _worst_case(spec: ToolSpec, choice: ModelChoice, known: Known) -> Money | None:
    price = known.prices.get(choice.sku)
    if price is None:
        return None
    return worst_case(price, bounds_of(spec, known.llm_input_tokens_max))


def _decision(policy: PolicySpec, spec: ToolSpec, refusals: Refusals) -> Decision:
    out = [f"{choice.alias}: {reason}" if choice.alias else reason for choice, reason in refusals]
    reasons = "; ".join(text for text, (_, reason) in zip(out, refusals, strict=True) if reason)
    admitted = next((choice for choice, reason in refusals if not reason), None)
    if admitted is None:
        return Decision(spec.name, False, reasons)
    without = f"; without {reasons}" if reasons else ""
    return Decision(spec.name, True, admission(policy, spec, admitted) + without)


def _resolve_tool(
    tool: ToolVersion, choices: Sequence[ModelChoice], policy: PolicySpec, known: Known
) -> ResolvedTool:
    spec = tool.spec
    return ResolvedTool(
        version=tool,
        description=describe_tool(spec, choices, known.prices, known.facts),
        parameters_schema=parameters_with_models(spec, choices),
        models=tuple(choice for choice in choices if choice.alias),
        weight=policy.preferences.tools.get(spec.name, 0.0),
        needs_approval=any(match(policy.approval, spec, choice) for choice in choices),
        price_per_call=_dearest([_worst_case(spec, choice, known) for choice in choices]),
    )


def _dearest(costs: Sequence[Money | None]) -> Money | None:
    """The most a call can cost whichever model is chosen; None when one is not known."""
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs) or len({cost.currency_code for cost in known}) != 1:
        return None
    return max(known, key=lambda cost: cost.amount)
