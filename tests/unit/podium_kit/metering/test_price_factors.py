"""A price schedule scales what a call is said to cost, exactly."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_kit.metering import InvalidPriceFactors, PriceFactors
from podium_kit.money import Money

AMOUNTS = st.decimals(0, 1000, places=12)


def test_a_sku_without_a_factor_keeps_its_price() -> None:
    factors = PriceFactors.read({"tool/a": "2.5"})
    assert factors.cost(Money(Decimal("0.02"), "EUR"), "tool/a") == Money(Decimal("0.05"), "EUR")
    assert factors.cost(Money(Decimal("0.02"), "EUR"), "tool/b") == Money(Decimal("0.02"), "EUR")


def test_an_unknown_cost_stays_unknown() -> None:
    assert PriceFactors.read({"tool/a": "2"}).cost(None, "tool/a") is None


@given(AMOUNTS, AMOUNTS, st.decimals("0.001", 1000, places=3))
def test_factors_keep_the_order_of_costs(one: Decimal, other: Decimal, factor: Decimal) -> None:
    factors = PriceFactors.read({"a": str(factor)})
    costs = [factors.cost(Money(amount, "USD"), "a") for amount in sorted((one, other))]
    assert costs[0] is not None
    assert costs[1] is not None
    assert costs[0] <= costs[1]


@pytest.mark.parametrize("text", ["", "two", "0", "-1", "NaN", "Infinity", "1001", "0.0009"])
def test_a_factor_that_is_no_price_is_rejected(text: str) -> None:
    with pytest.raises(InvalidPriceFactors, match="price factor of tool/a"):
        PriceFactors.read({"tool/a": text})


def test_more_factors_than_a_catalogue_has_prices_are_rejected() -> None:
    with pytest.raises(InvalidPriceFactors, match="at most 1000"):
        PriceFactors.read({str(number): "1" for number in range(1001)})
