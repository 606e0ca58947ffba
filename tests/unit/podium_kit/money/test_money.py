"""Money is exact: what is parsed is printed, sums have no order, bad amounts are rejected."""

from decimal import ROUND_DOWN, Decimal, localcontext
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_kit.money import AMOUNT_PLACES, InvalidMoney, Money

UNITS = st.integers(-(10**28) + 1, 10**28 - 1)  # of 10^-12: 16 integer digits
CURRENCIES = st.sampled_from(["USD", "EUR", "CHF"])


def dollars(units: int) -> Money:
    """An amount in units of 10^-12 dollars."""
    return Money(Decimal(units).scaleb(-AMOUNT_PLACES), "USD")


def exact(amount: Decimal) -> int:
    """The amount in units of 10^-12, by integer arithmetic alone."""
    sign, digits, exponent = amount.as_tuple()
    assert isinstance(exponent, int)
    scaled: int = int("".join(map(str, digits))) * 10 ** (exponent + AMOUNT_PLACES)
    return -scaled if sign else scaled


@given(UNITS, CURRENCIES)
def test_printed_amount_is_parsed_as_the_same_money(units: int, currency_code: str) -> None:
    money = Money(Decimal(units).scaleb(-AMOUNT_PLACES), currency_code)
    assert Money.parse(money.amount_string(), currency_code) == money
    assert str(money) == f"{money.amount_string()} {currency_code}"


@given(UNITS)
def test_printed_amount_has_neither_exponent_nor_trailing_zeros(units: int) -> None:
    text = dollars(units).amount_string()
    assert set(text) <= set("-0123456789.")
    assert "." not in text or text[-1] not in "0."


@given(st.lists(st.integers(-(10**26), 10**26), min_size=1, max_size=20), st.randoms())
def test_sum_is_exact_in_any_order(units: list[int], random: Random) -> None:
    random.shuffle(units)
    total = Money.zero("USD")
    for count in units:
        total += dollars(count)
    assert exact(total.amount) == sum(units)


@given(st.integers(-(10**27), 10**27), st.integers(-(10**27), 10**27))
def test_difference_undoes_a_sum(first: int, second: int) -> None:
    assert dollars(first) + dollars(second) - dollars(second) == dollars(first)


@given(st.integers(-(10**27), 10**27), st.integers(-(10**27), 10**27))
def test_arithmetic_ignores_the_decimal_context_of_the_thread(first: int, second: int) -> None:
    one, other = dollars(first), dollars(second)
    with localcontext(prec=3, rounding=ROUND_DOWN):
        total = (one + other).quantized()
    assert exact(total.amount) == first + second


@given(st.integers(-(10**20), 10**20), st.integers(1, 8))
def test_quantized_rounds_half_even_to_twelve_places(numerator: int, extra_places: int) -> None:
    money = Money(Decimal(numerator).scaleb(-AMOUNT_PLACES - extra_places), "USD")
    floor, rest = divmod(numerator, 10**extra_places)
    half = 5 * 10 ** (extra_places - 1)
    up = rest > half or (rest == half and floor % 2 == 1)
    assert exact(money.quantized().amount) == floor + up


@pytest.mark.parametrize(
    ("amount", "rounded"),
    [
        ("0.0000000000005", "0"),
        ("0.0000000000015", "0.000000000002"),
        ("0.0000000000025", "0.000000000002"),
        ("-0.0000000000005", "0"),
        ("-0.0000000000015", "-0.000000000002"),
    ],
)
def test_half_rounds_to_even(amount: str, rounded: str) -> None:
    assert Money(Decimal(amount), "USD").quantized().amount_string() == rounded


@given(UNITS, st.integers(0, 10**6))
def test_product_with_a_price_is_exact(units: int, count: int) -> None:
    small = dollars(units // 10**7)
    assert exact((small * count).amount) == exact(small.amount) * count


def test_token_price_does_not_vanish() -> None:
    assert str(Money.parse("0.00000015", "USD") * 1_000) == "0.00015 USD"


def test_nothing_prints_as_zero_whatever_its_sign_and_places() -> None:
    assert str(-Money.zero("USD")) == "0 USD"
    assert str(Money(Decimal("-0.000"), "USD")) == "0 USD"
    assert -Money.zero("USD") == Money.zero("USD")


@pytest.mark.parametrize(
    "amount",
    [
        "",
        " ",
        "1e5",
        "1E-7",
        "NaN",
        "sNaN",
        "Infinity",
        "-inf",
        ".5",
        "5.",
        "+1",
        "1,5",
        "1_000",
        " 1",
        "1\n",
        "0x1",
        "--1",
        "1.2.3",
        "\u0661",
        "one",
        "-0",
        "-0.000",
    ],
)
def test_amount_that_is_no_plain_decimal_is_rejected(amount: str) -> None:
    with pytest.raises(InvalidMoney, match="amount"):
        Money.parse(amount, "USD")


@given(UNITS, st.text("0123456789", min_size=1, max_size=5))
def test_thirteen_decimals_are_rejected(units: int, more: str) -> None:
    twelve = f"{dollars(units).amount:.12f}"
    Money.parse(twelve if units else "0", "USD")
    with pytest.raises(InvalidMoney, match="more than 12 decimals"):
        Money.parse(twelve + more, "USD")


@given(st.text())
def test_any_text_is_either_exact_money_or_rejected(text: str) -> None:
    try:
        money = Money.parse(text, "USD")
    except InvalidMoney:
        return
    assert money.amount == Decimal(text)


def test_sixteen_integer_digits_are_the_most() -> None:
    largest = "9" * 16 + "." + "9" * 12
    assert Money.parse(largest, "USD").amount_string() == largest
    with pytest.raises(InvalidMoney, match="out of range"):
        Money.parse("1" + "0" * 16, "USD")
    with pytest.raises(InvalidMoney, match="out of range"):
        Money.parse(largest, "USD") + Money.parse("0.000000000001", "USD")


def test_unrounded_amount_just_below_the_limit_is_in_range() -> None:
    amount = Decimal("9" * 16 + "." + "9" * 20)
    assert Money(amount, "USD").amount == amount


@pytest.mark.parametrize("currency_code", ["", "usd", "US", "USDT", "U$D", "USD ", "USD\n", "ÄÖÜ"])
def test_bad_currency_is_rejected(currency_code: str) -> None:
    with pytest.raises(InvalidMoney, match="ISO 4217"):
        Money.parse("1", currency_code)


def test_float_cannot_become_part_of_an_amount() -> None:
    factor: Any = 0.1
    with pytest.raises(TypeError):
        Money.parse("1", "USD") * factor


@pytest.mark.parametrize(
    "operation", ["__add__", "__sub__", "__lt__", "__le__", "__gt__", "__ge__"]
)
def test_currencies_do_not_mix(operation: str) -> None:
    with pytest.raises(InvalidMoney, match="EUR cannot be combined with USD without a rate"):
        getattr(Money.parse("1", "USD"), operation)(Money.parse("1", "EUR"))


def test_same_amount_of_another_currency_is_other_money() -> None:
    assert Money.parse("1", "USD") != Money.parse("1", "EUR")
    assert Money.zero("USD") != Money.zero("EUR")


@given(UNITS, UNITS)
def test_order_is_the_order_of_the_amounts(first: int, second: int) -> None:
    assert (dollars(first) < dollars(second)) == (first < second)
    assert (dollars(first) <= dollars(second)) == (first <= second)
    assert (dollars(first) > dollars(second)) == (first > second)
    assert (dollars(first) >= dollars(second)) == (first >= second)
