"""The expected cost and latency of a call, as coarse numbers: `terms` has the same in words."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from podium_kit.metering import Dimension, PriceFactors, Quantity
from podium_kit.money import Money
from tool_registry.models import (
    CallEstimate,
    Facts,
    ModelChoice,
    Price,
    ResolvedTool,
    Toolset,
    ToolSpec,
)
from tool_registry.policies.names import weight_key
from tool_registry.toolsets.prices import cost_of
from tool_registry.toolsets.terms import latency_step, nearest_step, terms_of
from tool_registry.toolsets.views import (
    FactsByModel,
    PricesBySku,
    facts_of,
    mean_cost,
    offers_models,
)

# Of a call that no one measured yet (assumed; the contract states it).
UNMEASURED = (
    Quantity(Dimension.CALL, Decimal(1)),
    Quantity(Dimension.INPUT_FRESH, Decimal(500)),
    Quantity(Dimension.OUTPUT_TEXT, Decimal(500)),
)


def estimates_of(
    spec: ToolSpec,
    choices: Sequence[ModelChoice],
    prices: PricesBySku,
    facts: FactsByModel,
    weights: Mapping[str, float],
    *,
    executor: ResolvedTool | None = None,
) -> tuple[CallEstimate, ...]:
    estimates = (
        _estimate(spec, choice, prices.get(choice.sku), facts_of(spec, choice, facts), weights)
        for choice in choices
    )
    if executor is None:
        return tuple(estimates)
    [executors] = executor.estimates
    return tuple(_together(estimate, executors) for estimate in estimates)


def _together(written: CallEstimate, run: CallEstimate) -> CallEstimate:
    """The estimate of a composite tool's call; unknown where one of the two is."""
    cost, latency_s = None, None
    if written.cost and run.cost and written.cost.currency_code == run.cost.currency_code:
        cost = written.cost + run.cost
        cost = Money(nearest_step(cost.amount), cost.currency_code) if cost.amount else cost
    if written.latency_s is not None and run.latency_s is not None:
        latency_s = float(latency_step(written.latency_s + run.latency_s))
    return replace(written, cost=cost, latency_s=latency_s)


def _estimate(
    spec: ToolSpec,
    choice: ModelChoice,
    price: Price | None,
    facts: Facts | None,
    weights: Mapping[str, float],
) -> CallEstimate:
    alias = choice.alias if offers_models(spec) else ""
    weight = weights.get(spec.name, 0.0)
    weight += weights.get(weight_key(spec.name, alias), 0.0) if alias else 0.0
    latency_s = None if facts is None else float(latency_step(facts.latency_p50_s))
    return CallEstimate(alias, _cost(price, facts), latency_s, weight)


def _cost(price: Price | None, facts: Facts | None) -> Money | None:
    if price is None:
        return None
    mean = mean_cost(price, facts) or cost_of(price, UNMEASURED)
    if mean.amount:
        return Money(nearest_step(mean.amount), mean.currency_code)
    # One that is charged for something else, such as GPU seconds, is not free.
    return None if any(part.unit_price for part in price.components) else mean


def requoted(
    toolset: Toolset, factors: PriceFactors, prices: PricesBySku, facts: FactsByModel
) -> Toolset:
    """The toolset with every price that it quotes times its SKU's factor, for the price schedule of
    a rollout.

    Only the terms and estimates change. What is allowed, what a call may cost at most and what it
    is charged follow the true prices, because the money is real.
    """
    quoted = {sku: _scaled(price, sku, factors) for sku, price in prices.items()}
    weights = toolset.policy.spec.preferences.tools
    tools = tuple(_requoted(tool, quoted, facts, weights) for tool in toolset.tools)
    return replace(toolset, tools=tools)


def _requoted(
    tool: ResolvedTool,
    quoted: Mapping[str, Price],
    facts: FactsByModel,
    weights: Mapping[str, float],
) -> ResolvedTool:
    spec = tool.version.spec
    choices = tool.models or spec.choices
    executor = _requoted(tool.executor, quoted, facts, weights) if tool.executor else None
    return replace(
        tool,
        terms=terms_of(spec, choices, quoted, facts, weights, executor=executor),
        estimates=estimates_of(spec, choices, quoted, facts, weights, executor=executor),
        executor=executor,
    )


def _scaled(price: Price, sku: str, factors: PriceFactors) -> Price:
    factor = factors.of(sku)
    parts = tuple(replace(part, unit_price=part.unit_price * factor) for part in price.components)
    return Price(price.currency_code, parts)
