"""The terms of a call in words: its cost, its latency, its success rate and its weight.

One short line that a prompt never cuts, always in the same order, so that a model can learn it:

    $0.01, 1-5 s, 99%, weight 0.5

Price, median and 90th percentile of latency, success, weight; at the end, that its calls fail at
present. A tool with a choice of models has these for each of them, and a composite tool those of
its executor behind them. Figures are coarse: a model needs no more, and a prompt whose words stay
the same is served from the engine's cache.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from decimal import Decimal

from podium_kit.metering import Dimension
from tool_registry.models import (
    Facts,
    ModelChoice,
    Price,
    PriceComponent,
    ResolvedTool,
    ToolSpec,
)
from tool_registry.policies.names import weight_key
from tool_registry.toolsets.views import FactsByModel, facts_of, mean_cost, offers_models

STEPS = tuple(Decimal(digit).scaleb(power) for power in range(-9, 4) for digit in (1, 2, 5))
LATENCY_MIN_S = Decimal("0.01")
SUCCESS_STEPS = (99, 95, 90, 80, 50)
# One failure of two calls is no measurement.
SUCCESS_SAMPLES_MIN = 10


def latency_step(seconds: float) -> Decimal:
    """The nearest step of a latency in seconds, from a hundredth on."""
    return nearest_step(max(Decimal(seconds), LATENCY_MIN_S))


def nearest_step(amount: Decimal) -> Decimal:
    """The nearest of 1, 2, 5, 10, 20 ... by ratio; what is above all of them, as a whole."""
    place = bisect_left(STEPS, amount)
    if place == len(STEPS):
        return round(amount, 0)
    below, above = STEPS[max(place - 1, 0)], STEPS[place]
    return below if amount * amount < below * above else above


MILLION = Decimal(1_000_000)
TOKEN_NAMES = {
    Dimension.INPUT_FRESH: "in",
    Dimension.CACHE_READ: "cached in",
    Dimension.CACHE_WRITE_SHORT: "written to a cache",
    Dimension.CACHE_WRITE_LONG: "written to a lasting cache",
    Dimension.OUTPUT_TEXT: "out",
    Dimension.REASONING: "reasoning",
    Dimension.AUDIO_INPUT: "audio in",
    Dimension.AUDIO_OUTPUT: "audio out",
}
USUAL = {
    Dimension.CACHE_READ: Dimension.INPUT_FRESH,
    Dimension.REASONING: Dimension.OUTPUT_TEXT,
}


def terms_of(
    spec: ToolSpec,
    choices: Sequence[ModelChoice],
    prices: Mapping[str, Price],
    facts: FactsByModel,
    weights: Mapping[str, float],
    *,
    executor: ResolvedTool | None = None,
) -> str:
    own = weights.get(spec.name)
    rows = [_model_terms(spec, choice, prices, facts, weights) for choice in choices]
    if not offers_models(spec):
        [choice] = choices
        rows = [_terms(spec, prices.get(choice.sku), facts_of(spec, choice, facts), own)]
    elif own is not None:
        rows.append(_weight(own))
    if executor is not None:
        rows.append(f"then {executor.version.spec.name}: {executor.terms}")
    return "; ".join(rows)


def price_text(price: Price | None) -> str:
    """Returns for example `$0.01` a call, or `$0.20/M in + $0.80/M out`."""
    if price is None:
        return "price unknown"
    charged = [part for part in price.components if part.unit_price and not _is_usual(part, price)]
    # The price of a reported dollar says nothing about a call.
    charged = [part for part in charged if part.dimension is not Dimension.PROVIDER_COST]
    return " + ".join(_charge(part, price.currency_code) for part in charged) or "free"


def latency_text(facts: Facts | None) -> str:
    """Returns for example `1-5 s`. A count of calls would change with every call."""
    if facts is None:
        return "latency unknown"
    median, slow = _seconds(facts.latency_p50_s), _seconds(facts.latency_p90_s)
    return f"{median} s" if median == slow else f"{median}-{slow} s"


def success_text(facts: Facts | None) -> str:
    """Returns for example `95%`; empty when too few calls were measured."""
    if facts is None or facts.sample_count < SUCCESS_SAMPLES_MIN:
        return ""
    percent = facts.success_rate * 100
    step = next((step for step in SUCCESS_STEPS if percent >= step), None)
    return f"{step}%" if step else f"under {SUCCESS_STEPS[-1]}%"


def unavailable_text(facts: Facts | None) -> str:
    """Returns for example `unavailable now (it is rate-limited)`; empty for most tools.

    The seconds that it lasts would change with every prompt.
    """
    if facts is None or facts.unavailable is None:
        return ""
    return f"unavailable now ({facts.unavailable.reason})"


def cost_text(price: Price | None, facts: Facts | None) -> str:
    """Returns the mean cost of a call, for example `$0.002 a call`; empty when the price states it,
    or when no call has cost anything.
    """
    mean = mean_cost(price, facts)
    if price is None or mean is None or not mean.amount or _per_call_only(price):
        return ""
    return f"{_amount(nearest_step(mean.amount), mean.currency_code)} a call"


def _terms(spec: ToolSpec, price: Price | None, facts: Facts | None, weight: float | None) -> str:
    charged = "priced by what it calls" if spec.kind.starts_episode else price_text(price)
    parts = [charged, cost_text(price, facts), latency_text(facts), success_text(facts)]
    parts += [_weight(weight)] if weight is not None else []
    parts.append(unavailable_text(facts))
    return ", ".join(part for part in parts if part)


def _model_terms(
    spec: ToolSpec,
    choice: ModelChoice,
    prices: Mapping[str, Price],
    facts: FactsByModel,
    weights: Mapping[str, float],
) -> str:
    weight = weights.get(weight_key(spec.name, choice.alias))
    terms = _terms(spec, prices.get(choice.sku), facts_of(spec, choice, facts), weight)
    return f"{choice.alias}: {terms}"


def _weight(weight: float) -> str:
    return f"weight {weight:g}"


def _per_call_only(price: Price) -> bool:
    return all(part.dimension is Dimension.CALL for part in price.components)


def _is_usual(part: PriceComponent, price: Price) -> bool:
    """Returns whether such tokens cost what input or output costs anyway."""
    usual = price.unit_prices.get(USUAL.get(part.dimension, part.dimension))
    return part.dimension in USUAL and usual == part.of_one_unit


def _charge(part: PriceComponent, currency_code: str) -> str:
    if part.dimension is Dimension.CALL:
        return _amount(part.of_one_unit, currency_code)
    if name := TOKEN_NAMES.get(part.dimension):
        return f"{_amount(part.of_one_unit * MILLION, currency_code)}/M {name}"
    unit = "GPU second" if part.dimension is Dimension.GPU_SECOND else part.dimension.value
    return f"{_amount(part.of_one_unit, currency_code)}/{unit}"


def _amount(amount: Decimal, currency_code: str) -> str:
    """Writes an amount with at least two decimals, and more only when they matter."""
    text = f"{amount.normalize():f}"
    whole, _, decimals = text.partition(".")
    text = f"{whole}.{decimals.ljust(2, '0')}"
    return f"${text}" if currency_code == "USD" else f"{text} {currency_code}"


def _seconds(seconds: float) -> str:
    return f"{latency_step(seconds).normalize():f}"
