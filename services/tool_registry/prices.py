"""Prices in words, and the most one call can cost."""

from decimal import Decimal
from math import inf

from metering import Dimension
from money import Money
from tool_registry.models import Facts, Price, PriceComponent

UNIT_NAMES = {
    Dimension.INPUT_FRESH: "input tokens",
    Dimension.CACHE_READ: "cached input tokens",
    Dimension.OUTPUT_TEXT: "output tokens",
    Dimension.REASONING: "reasoning tokens",
    Dimension.CALL: "call",
    Dimension.SECOND: "second",
    Dimension.SEARCH: "search",
    Dimension.DOCUMENT: "document",
}
# What a call reads at most; the paper's experts get 24,000 tokens or fewer.
INPUT_TOKENS_MAX = 24_000
DEFAULT_OUTPUT_TOKENS = 1024
LATENCY_STEPS_S = (*(digit * 10**power for power in range(-2, 4) for digit in (1, 2, 5)), inf)


def describe_price(price: Price | None) -> str:
    """For the orchestrator: what a call costs."""
    if price is None:
        return "price unknown"
    charged = [part for part in price.components if part.unit_price]
    if not charged:
        return "free"
    return ", ".join(_describe(part, price.currency_code) for part in charged)


def describe_latency(facts: Facts | None) -> str:
    """For the orchestrator: how long a call takes, as measured."""
    if facts is None or not facts.sample_count:
        return "latency not measured yet"
    return f"latency {_coarse(facts.latency_p50_s)}, p95 {_coarse(facts.latency_p95_s)}"


def _coarse(seconds: float) -> str:
    """The next of 0.01, 0.02, 0.05, 0.1 ... s: a model needs no more, and a prompt whose
    words stay the same is served from the engine's prefix cache."""
    step = next(step for step in LATENCY_STEPS_S if seconds <= step)
    return f"under {step:g} s"


def worst_case(price: Price, timeout_s: float, output_tokens: int) -> Money:
    """The most one call can cost."""
    units = {
        Dimension.INPUT_FRESH: Decimal(INPUT_TOKENS_MAX),
        Dimension.OUTPUT_TEXT: Decimal(output_tokens or DEFAULT_OUTPUT_TOKENS),
        Dimension.SECOND: Decimal(str(timeout_s)),
    }
    total = Money.zero(price.currency_code)
    for part in price.components:
        used = units.get(part.dimension, Decimal(1))
        total += Money(used * part.unit_price / part.per, price.currency_code).quantized()
    return total


def price_per_call(price: Price | None) -> Money | None:
    """The price of a call that is priced by the call alone; None otherwise."""
    if price is None or {part.dimension for part in price.components} != {Dimension.CALL}:
        return None
    [part] = price.components
    return Money(part.unit_price / part.per, price.currency_code).quantized()


def _describe(part: PriceComponent, currency: str) -> str:
    name = UNIT_NAMES.get(part.dimension, part.dimension.value)
    price = Money(part.unit_price, currency).amount_string()
    if part.per == 1:
        return f"{price} {currency} per {name}"
    per = "million" if part.per == 1_000_000 else f"{part.per:f}"
    return f"{price} {currency} per {per} {name}"
