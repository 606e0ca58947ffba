from decimal import Decimal

import pytest

from podium_cli.formats import format_money, format_seconds
from podium_kit.money import Money
from podium_kit.text import format_bytes, one_line


@pytest.mark.parametrize(
    ("amount", "currency", "shown"),
    [
        ("0.000000150000", "USD", "$0.00000015"),
        ("12.50", "EUR", "€12.5"),
        ("100", "USD", "$100"),
        ("0", "USD", "$0"),
        ("3.1", "CHF", "3.1 CHF"),
        ("-0.5", "USD", "-$0.5"),
    ],
)
def test_money_is_shown_to_its_last_digit(amount: str, currency: str, shown: str) -> None:
    assert format_money(Money(Decimal(amount), currency)) == shown


def test_an_unknown_cost_is_not_zero() -> None:
    assert format_money(None) == "unknown"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0124, "12 ms"),
        (3.44, "3.4 s"),
        (59.9, "59.9 s"),
        (125, "2 min 05 s"),
        (3725, "1 h 02 min"),
    ],
)
def test_time_is_shown_in_the_unit_people_would_choose(seconds: float, shown: str) -> None:
    assert format_seconds(seconds) == shown


@pytest.mark.parametrize(
    ("size", "shown"), [(12, "12 B"), (81_200, "81 kB"), (2_500_000_000, "2.5 GB")]
)
def test_memory_is_shown_in_decimal_units(size: int, shown: str) -> None:
    assert format_bytes(size) == shown


def test_long_text_becomes_one_line_that_says_it_was_cut() -> None:
    assert one_line("a\n b   c", 10) == "a b c"
    assert one_line("x" * 11, 10) == "x" * 9 + "…"
