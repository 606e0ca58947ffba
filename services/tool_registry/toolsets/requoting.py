"""A toolset quoted at other prices: the price schedule of a rollout.

Only the terms and estimates change. What is allowed, what a call may cost at most and what it is
charged follow the true prices, because the money is real.
"""

from collections.abc import Mapping
from dataclasses import replace

from podium_kit.metering import PriceFactors
from tool_registry.models import Price, ResolvedTool, Toolset
from tool_registry.toolsets.estimates import estimates_of
from tool_registry.toolsets.terms import terms_of
from tool_registry.toolsets.views import FactsByModel, PricesBySku


def requoted(
    toolset: Toolset, factors: PriceFactors, prices: PricesBySku, facts: FactsByModel
) -> Toolset:
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
    return replace(
        tool,
        terms=terms_of(spec, choices, quoted, facts, weights),
        estimates=estimates_of(spec, choices, quoted, facts, weights),
    )


def _scaled(price: Price, sku: str, factors: PriceFactors) -> Price:
    factor = factors.of(sku)
    parts = tuple(replace(part, unit_price=part.unit_price * factor) for part in price.components)
    return Price(price.currency_code, parts)
