"""The worth of a right answer by each way to it, under the tenant's weights.

The paper's reward (section 3.2) of an episode that is right: outcome weighs 1, cost and latency by
their place between the most and the least that the tools on offer cost and take. A small model
cannot work that out of prices, latencies and weights; it is left to know who is right how often.
"""

from collections import Counter
from collections.abc import Sequence

from orchestrator_inference.models import CallEstimate, Preferences, PromptTool

# A tool's name, and one way to call it.
Way = tuple[str, CallEstimate]

SCALE = 10
# Smaller differences are those of one turn of the orchestrator, whichever way it goes.
COST_SPREAD_MIN, LATENCY_SPREAD_MIN_S = 0.001, 5.0


def worth_line(tools: Sequence[PromptTool], weights: Preferences) -> str:
    """Returns for example `A right answer is worth, of 10: by tools 10, small 8, large 4.`

    What is worth most comes first: a small model copies the first name more surely than it finds
    the highest number. Tools that offer no choice of models are named where they differ from most
    of them. Empty where no choice is offered and all are worth the same. What is unknown is not
    stated.
    """
    rated = rated_ways(tools, weights)
    plain = Counter(tenths for (_, way), tenths in rated if not way.model_alias).most_common(1)
    usual = [("by tools", tenths) for tenths, _ in plain]
    named = [
        (way.model_alias or name, tenths)
        for (name, way), tenths in rated
        if way.model_alias or tenths != usual[0][1]
    ]
    if not named:
        return ""
    options = sorted([*usual, *named], key=lambda each: -each[1])
    return f"A right answer is worth, of {SCALE}: {', '.join(f'{who} {n}' for who, n in options)}."


def rated_ways(tools: Sequence[PromptTool], weights: Preferences) -> list[tuple[Way, int]]:
    """Returns the ways whose worth is known, with that worth, in the order of the tools."""
    ways = _known([(tool.name, each) for tool in tools for each in tool.estimates], weights)
    return list(zip(ways, _worth([way for _, way in ways], weights), strict=True))


def _known(ways: Sequence[Way], weights: Preferences) -> list[Way]:
    """Returns the ways with known weighed features, at costs in the first one's currency.

    Where a cost, or a latency, is known of none, it tells none apart.
    """
    currencies = [way.cost.currency_code for _, way in ways if way.cost is not None]
    costed = weights.compute and currencies
    timed = weights.latency and any(way.latency_s is not None for _, way in ways)
    return [
        (name, way)
        for name, way in ways
        if not costed or (way.cost and way.cost.currency_code == currencies[0])
        if not timed or way.latency_s is not None
    ]


def _worth(ways: Sequence[CallEstimate], weights: Preferences) -> list[int]:
    costs = _saved([float(way.cost.amount) if way.cost else 0.0 for way in ways], COST_SPREAD_MIN)
    times = _saved([way.latency_s or 0.0 for way in ways], LATENCY_SPREAD_MIN_S)
    earned = [
        weights.outcome + weights.compute * cost + weights.latency * time + way.weight
        for way, cost, time in zip(ways, costs, times, strict=True)
    ]
    best = max(earned, default=0.0)
    return [round(SCALE * each / best) if best else SCALE for each in earned]


def _saved(values: Sequence[float], spread_min: float) -> list[float]:
    """1 for the least, less the more; 0 for the most where they differ enough."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    spread = max(high - low, spread_min)
    return [1 - (value - low) / spread for value in values]
