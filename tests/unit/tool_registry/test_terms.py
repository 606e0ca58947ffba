"""The line that tells an orchestrator what a call costs."""

from decimal import Decimal

from podium_kit.metering import Dimension, LatencyHistogram, Quantity
from tool_registry.models import Facts, Price, PriceComponent
from tool_registry.toolsets.terms import cost_text


def price_of(a_token: str) -> Price:
    return Price("USD", (PriceComponent(Dimension.INPUT_FRESH, Decimal(a_token), Decimal(1)),))


def facts_of(tokens: int) -> Facts:
    used = (Quantity(Dimension.INPUT_FRESH, Decimal(tokens)),) if tokens else ()
    return Facts("expert", "", 2, LatencyHistogram.of([1.0, 1.0]), 1.0, used)


def test_a_mean_cost_is_told_where_calls_cost_something() -> None:
    assert cost_text(price_of("0.000001"), facts_of(2_000)) == "$0.001 a call"


def test_no_cost_is_made_up_where_no_call_cost_anything() -> None:
    assert cost_text(price_of("0"), facts_of(2_000)) == ""
    # All of them failed before they used anything; the next will not be for nothing.
    assert cost_text(price_of("0.000001"), facts_of(0)) == ""
