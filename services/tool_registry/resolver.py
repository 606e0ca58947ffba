"""From tools, a policy, prices and measurements to a frozen toolset."""

from collections.abc import Mapping, Sequence

from money import Money
from tool_registry.compiled_policy import Circumstances, allowed_models, decide, matches
from tool_registry.errors import ToolNotFound, ToolRefused
from tool_registry.models import (
    Decision,
    Facts,
    ModelChoice,
    PolicyVersion,
    Price,
    ResolvedTool,
    Toolset,
    ToolSpec,
    ToolVersion,
)
from tool_registry.prices import price_per_call, worst_case
from tool_registry.tool_views import FactsByModel, describe_tool, parameters_with_models

Prices = Mapping[str, Price]


def resolve(
    tools: Sequence[ToolVersion],
    policy: PolicyVersion,
    prices: Prices,
    facts: FactsByModel,
    wanted: Sequence[str] = (),
) -> Toolset:
    """What an episode may use, in name order. Raises ToolNotFound, ToolRefused."""
    ordered = sorted(tools, key=lambda tool: tool.spec.name)
    decisions = tuple(
        decide(policy.spec, tool.spec, _circumstances(policy, tool.spec, prices, facts))
        for tool in ordered
    )
    _check_wanted(wanted, decisions)
    allowed = {decision.name for decision in decisions if decision.allowed}
    chosen = allowed & set(wanted) if wanted else allowed
    resolved = tuple(
        _resolve_tool(tool, policy, prices, facts) for tool in ordered if tool.spec.name in chosen
    )
    return Toolset(resolved, policy, decisions)


def _check_wanted(wanted: Sequence[str], decisions: Sequence[Decision]) -> None:
    by_name = {decision.name: decision for decision in decisions}
    for name in wanted:
        if name not in by_name:
            raise ToolNotFound(name)
        if not by_name[name].allowed:
            raise ToolRefused(name, by_name[name].reason)


def _resolve_tool(
    tool: ToolVersion, policy: PolicyVersion, prices: Prices, facts: FactsByModel
) -> ResolvedTool:
    spec = tool.spec
    models = allowed_models(policy.spec, spec)
    return ResolvedTool(
        version=tool,
        description=describe_tool(spec, models, prices, facts),
        parameters_schema=parameters_with_models(spec, models),
        models=models,
        weight=policy.spec.preferences.tools.get(spec.name, 0.0),
        needs_approval=matches(policy.spec.approval, spec),
        price_per_call=None if models else price_per_call(prices.get(spec.sku)),
    )


def _circumstances(
    policy: PolicyVersion, spec: ToolSpec, prices: Prices, facts: FactsByModel
) -> Circumstances:
    models = allowed_models(policy.spec, spec)
    return Circumstances(_worst_case(spec, models, prices), _latency(spec, models, facts))


def _worst_case(spec: ToolSpec, models: tuple[ModelChoice, ...], prices: Prices) -> Money | None:
    """The dearest call of the allowed models; None when any of them has no known price."""
    known = [prices.get(sku) for sku in ([m.sku for m in models] if spec.models else [spec.sku])]
    costs = [
        worst_case(price, spec.timeout_s, spec.max_output_tokens)
        for price in known
        if price is not None
    ]
    return max(costs, key=lambda cost: cost.amount) if len(costs) == len(known) and costs else None


def _latency(spec: ToolSpec, models: tuple[ModelChoice, ...], facts: FactsByModel) -> float | None:
    aliases = [choice.alias for choice in models] or [""]
    measured: list[Facts] = [f for alias in aliases if (f := facts.get((spec.name, alias)))]
    return min((entry.latency_p95_s for entry in measured), default=None)
