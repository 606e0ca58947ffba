"""Quantities are never negative, dimensions never double, sums never lose anything."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_kit.metering import Dimension, InvalidUsage, Quantity, Usage, UsageSource

AMOUNTS = st.decimals(0, 10**12, places=6)
USAGES = st.dictionaries(st.sampled_from(Dimension), AMOUNTS).map(
    lambda amounts: Usage(
        tuple(Quantity(name, amount) for name, amount in amounts.items()), UsageSource.MEASURED
    )
)


@pytest.mark.parametrize("amount", ["-1", "-0.000001", "NaN", "sNaN", "Infinity", "-Infinity"])
def test_quantity_that_cannot_be_priced_is_rejected(amount: str) -> None:
    with pytest.raises(InvalidUsage, match="call is"):
        Quantity(Dimension.CALL, Decimal(amount))


def test_dimension_counted_twice_is_rejected() -> None:
    twice = (Quantity(Dimension.CALL, Decimal(1)), Quantity(Dimension.CALL, Decimal(2)))
    with pytest.raises(InvalidUsage, match="twice"):
        Usage(twice, UsageSource.PROVIDER)


@given(USAGES)
def test_get_answers_every_dimension_and_zero_for_the_unused(usage: Usage) -> None:
    used = {entry.dimension: entry.amount for entry in usage.quantities}
    for dimension in Dimension:
        assert usage.get(dimension) == used.get(dimension, 0)


@pytest.mark.parametrize("dimension", Dimension)
def test_of_names_dimensions_by_their_value(dimension: Dimension) -> None:
    usage = Usage.of(UsageSource.MEASURED, **{dimension.value: "0.25"})
    assert usage.quantities == (Quantity(dimension, Decimal("0.25")),)


def test_of_leaves_zeros_out() -> None:
    usage = Usage.of(UsageSource.MEASURED, call=1, reasoning=0)
    assert [entry.dimension for entry in usage.quantities] == [Dimension.CALL]


@given(st.lists(USAGES, max_size=6))
def test_total_sums_each_dimension_in_the_order_of_dimension(usages: list[Usage]) -> None:
    total = Usage.total(usages)
    for entry in total:
        assert entry.amount == sum(usage.get(entry.dimension) for usage in usages)
    named = {entry.dimension for usage in usages for entry in usage.quantities}
    assert [entry.dimension for entry in total] == [name for name in Dimension if name in named]
