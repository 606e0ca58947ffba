"""The most one call can cost, and what calls did cost.

A token is in exactly one dimension (fresh or cached, text or reasoning), so the worst
case takes the most expensive dimension of its group. What nothing bounds (documents, images)
has no worst case: None, never a guess.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from podium_kit.metering import COMPLETION_TOKENS, PROMPT_TOKENS, Dimension, Quantity
from podium_kit.money import Money
from tool_registry.models import Price, ToolSpec

DEFAULT_OUTPUT_TOKENS = 1_024
SECONDS = (Dimension.SECOND, Dimension.GPU_SECOND)


@dataclass(frozen=True)
class CallBounds:
    """Groups of dimensions and the most units of each a call can use."""

    groups: tuple[tuple[frozenset[Dimension], Decimal], ...]


def worst_case_of(price: Price, spec: ToolSpec, llm_input_tokens_max: int) -> Money | None:
    """The most one call of a tool can cost; computed once per price, as decisions must be fast."""
    input_tokens = llm_input_tokens_max if spec.kind.has_models else 0
    limits = (spec.timeout_s, input_tokens, max_output_tokens(spec))
    if limits not in price.worst_cases:
        price.worst_cases[limits] = worst_case(price, bounds_of(*limits))
    return price.worst_cases[limits]


def bounds_of(timeout_s: float, input_tokens: int, output_tokens: int) -> CallBounds:
    timeout = Decimal(str(timeout_s))
    groups = [(frozenset({Dimension.CALL}), Decimal(1))]
    groups += [(frozenset({dimension}), timeout) for dimension in SECONDS]
    if input_tokens:
        groups += [
            (PROMPT_TOKENS, Decimal(input_tokens)),
            (COMPLETION_TOKENS, Decimal(output_tokens)),
        ]
    return CallBounds(tuple(groups))


def max_output_tokens(spec: ToolSpec) -> int:
    """0 for tools that write no tokens."""
    writes = spec.kind.has_models and not spec.embeds
    return (spec.max_output_tokens or DEFAULT_OUTPUT_TOKENS) if writes else 0


def worst_case(price: Price, bounds: CallBounds) -> Money | None:
    """The most one call can cost; None when a priced dimension is not bounded."""
    units = dict(price.unit_prices)
    # It takes the place of what is bounded below.
    units.pop(Dimension.PROVIDER_COST, None)
    total = Money.zero(price.currency_code)
    for dimensions, most in bounds.groups:
        priced = dimensions & units.keys()
        if priced:
            most_expensive = max(units.pop(dimension) for dimension in priced)
            total += Money(most_expensive * most, price.currency_code).quantized()
    return None if units else total


def cost_of(price: Price, used: Iterable[Quantity]) -> Money:
    """Returns the cost of quantities; as in the ledger, a reported cost that the price lists is
    charged alone, tokens without a price of their own cost what input or output costs, and any
    other dimension without one is free.
    """
    units, charged = price.unit_prices, tuple(used)
    if any(part.dimension is Dimension.PROVIDER_COST for part in price.components):
        reported = tuple(each for each in charged if each.dimension is Dimension.PROVIDER_COST)
        charged = reported or charged
    cost = sum((_rate(each.dimension, units) * each.amount for each in charged), Decimal(0))
    return Money(cost, price.currency_code).quantized()


def _rate(dimension: Dimension, units: Mapping[Dimension, Decimal]) -> Decimal:
    if dimension in PROMPT_TOKENS:
        dimension = dimension if dimension in units else Dimension.INPUT_FRESH
    elif dimension in COMPLETION_TOKENS:
        dimension = dimension if dimension in units else Dimension.OUTPUT_TEXT
    return units.get(dimension, Decimal(0))
