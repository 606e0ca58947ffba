from decimal import Decimal

import pytest

from podium_kit.metering import Dimension, Quantity
from podium_kit.money import Money
from tool_registry.models import Price, PriceComponent
from tool_registry.toolsets.prices import cost_of

PRICE = Price(
    "USD",
    (
        PriceComponent(Dimension.INPUT_FRESH, Decimal(1), Decimal(1_000_000)),
        PriceComponent(Dimension.OUTPUT_TEXT, Decimal(10), Decimal(1_000_000)),
    ),
)


@pytest.mark.parametrize(
    ("dimension", "amount"),
    [
        (Dimension.INPUT_FRESH, "0.001"),
        (Dimension.CACHE_READ, "0.001"),
        (Dimension.REASONING, "0.01"),
        (Dimension.SECOND, "0"),
    ],
)
def test_tokens_without_a_price_cost_what_they_are_a_kind_of(
    dimension: Dimension, amount: str
) -> None:
    used = [Quantity(dimension, Decimal(1000))]
    assert cost_of(PRICE, used) == Money(Decimal(amount), "USD")
