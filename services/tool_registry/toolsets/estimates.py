"""The expected cost and latency of a call, as coarse numbers: `terms` has the same in words."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from podium_kit.metering import Dimension, Quantity
from podium_kit.money import Money
from tool_registry.models import CallEstimate, Facts, ModelChoice, Price, ToolSpec
from tool_registry.policies.names import weight_key
from tool_registry.toolsets.prices import cost_of
from tool_registry.toolsets.steps import latency_step, nearest_step
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
) -> tuple[CallEstimate, ...]:
    return tuple(
        _estimate(spec, choice, prices.get(choice.sku), facts_of(spec, choice, facts), weights)
        for choice in choices
    )


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
