from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_ledger.errors import InvalidPrice
from cost_ledger.prices.components import PriceComponent
from cost_ledger.prices.models import Period, PriceVersion
from podium_kit.metering import Dimension, Quantity
from podium_kit.money import Money

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PERIOD = Period(NOW, NOW + timedelta(hours=1))
QUANTITIES = st.decimals(0, Decimal(10) ** 15, places=6)
UNIT_PRICES = st.decimals(0, Decimal(10) ** 6, places=18)
PERS = st.sampled_from([Decimal(1), Decimal(3), Decimal(1000), Decimal(1_000_000)])
COMPONENTS = st.builds(PriceComponent, st.just(Dimension.OUTPUT_TEXT), UNIT_PRICES, PERS)


def make_version(*components: PriceComponent) -> PriceVersion:
    return PriceVersion("v1", "", "sku", "USD", components, None, None, "", NOW)


def tokens(unit_price: str, dimension: Dimension = Dimension.OUTPUT_TEXT) -> PriceComponent:
    return PriceComponent(dimension, Decimal(unit_price), Decimal(1_000_000))


@given(COMPONENTS, QUANTITIES)
def test_an_amount_is_the_exact_product_rounded_half_even_once(
    component: PriceComponent, quantity: Decimal
) -> None:
    exact = Fraction(quantity) * Fraction(component.unit_price) / Fraction(component.per)
    units = round(exact * 10**12)  # Python rounds fractions half-even
    assert Fraction(component.amount_of(quantity)) == Fraction(units, 10**12)


@given(COMPONENTS, QUANTITIES, QUANTITIES)
def test_more_never_costs_less(component: PriceComponent, one: Decimal, other: Decimal) -> None:
    fewer, more = sorted((one, other))
    assert component.amount_of(fewer) <= component.amount_of(more)


@given(
    st.decimals(Decimal("0.01"), 100, places=4),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.decimals(0, 1000, places=12),
)
def test_the_fitting_output_is_the_largest_that_fits(
    unit_price: Decimal, input_tokens: int, output_tokens: int, remaining: Decimal
) -> None:
    version = make_version(
        tokens("1.25", Dimension.INPUT_FRESH), tokens(str(unit_price), Dimension.OUTPUT_TEXT)
    )

    def cost(output: int) -> Decimal:
        return version.worst_cost(worst_case(input_tokens, output), PERIOD).amount

    asked = worst_case(input_tokens, output_tokens)
    fitting = version.fitting_output_tokens(asked, Money(remaining, "USD"), PERIOD)
    if fitting is None:
        assert output_tokens == 0 or cost(1) > remaining
    else:
        assert 1 <= fitting <= output_tokens
        assert cost(fitting) <= remaining
        assert fitting == output_tokens or cost(fitting + 1) > remaining


def worst_case(input_tokens: int, output_tokens: int) -> tuple[Quantity, ...]:
    return (
        Quantity(Dimension.INPUT_FRESH, Decimal(input_tokens)),
        Quantity(Dimension.OUTPUT_TEXT, Decimal(output_tokens)),
    )


def test_ten_calls_at_three_ten_thousandths_are_three_thousandths() -> None:
    component = PriceComponent(Dimension.CALL, Decimal("0.0003"), Decimal(1))
    cost = make_version(component).cost((Quantity(Dimension.CALL, Decimal(1)),), NOW)
    total = sum((cost.amount for _ in range(10)), Decimal(0))
    assert total == Decimal("0.003")


def test_components_are_added_and_other_dimensions_cost_nothing() -> None:
    version = make_version(
        tokens("1.25", Dimension.INPUT_FRESH), tokens("0.125", Dimension.CACHE_READ)
    )
    cost = version.cost(
        (
            Quantity(Dimension.INPUT_FRESH, Decimal(1000)),
            Quantity(Dimension.CACHE_READ, Decimal(8000)),
            Quantity(Dimension.IMAGE, Decimal(3)),
        ),
        NOW,
    )
    assert cost == Money(Decimal("0.00225"), "USD")


@pytest.mark.parametrize(
    ("unit_price", "per"),
    [("-1", "1"), ("NaN", "1"), ("1", "0"), ("1", "-5"), ("0.1234567890123456789", "1")],
)
def test_a_price_that_is_not_exact_and_positive_is_rejected(unit_price: str, per: str) -> None:
    with pytest.raises(InvalidPrice):
        PriceComponent(Dimension.CALL, Decimal(unit_price), Decimal(per))
