import pytest
from hypothesis import given
from hypothesis import strategies as st
from simpleeval import InvalidExpression, simple_eval  # type: ignore[import-untyped]

from podium_functions.errors import FunctionFailed
from podium_functions.table import FUNCTIONS
from podium_kit.failures import FailureKind

calculator = FUNCTIONS["calculator"]

WRITTEN = [
    ("15% of 80", 12),
    ("17% of 2,340", 397.8),
    ("What is 17% of 2,340?", 397.8),
    ("7.5 percent of 1,200", 90),
    ("20 per cent of 45", 9),
    ("10% of 50 + 3", 8),
    ("50 + 10% of 30", 53),
    ("10% of 20% of 50", 1),
    ("80 * 15%", 12),
    ("5 * 10% + 3", 3.5),
    ("5 + 10% * 80", 13),
    ("2 * -5%", -0.1),
    ("10% of 5 squared", 2.5),
    ("80 increased by 15% of 20", 83),
    ("the sum of 2 and 3 squared", 11),
    ("2 ** 3 ** 2", 512),
    ("remainder of 17 divided by 5 plus 3", 5),
    ('"15% of 80"', 12),
    ("15%", 0.15),
    ("15% off 80", 68),
    ("80 increased by 15%", 92),
    ("80 reduced by 15%", 68),
    ("80 increased by 5", 85),
    ("12 is what percent of 80?", 15),
    ("what percentage of 80 is 12", 15),
    ("2,340 * 1,017", 2379780),
    ("12,34,567 + 1", 1234568),
    ("1 017 - 17", 1000),
    ("sqrt(2,340) ** 2", 2340),
    ("gcd(12,345)", 3),
    ("12 \u00d7 7", 84),
    ("12x7", 84),
    ("12 X 7", 84),
    ("12 \u00b7 7", 84),
    ("144 \u00f7 12", 12),
    ("12 \u2212 7", 5),
    ("12 plus 7 minus 3", 16),
    ("12 times 7", 84),
    ("12 multiplied by 7", 84),
    ("100 divided by 8", 12.5),
    ("2 to the power of 10", 1024),
    ("2 raised to the power of 10", 1024),
    ("2 to the 10th power", 1024),
    ("2^10", 1024),
    ("5\u00b2 + 2\u00b9\u2070", 1049),
    ("5 squared", 25),
    ("2 cubed times 3", 24),
    ("-5 squared", -25),
    ("square root of 2", 1.4142135623731),
    ("the square root of 16 + 9", 13),
    ("the cube root of 27", 3),
    ("5th root of 32", 2),
    ("the fifth root of 32", 2),
    ("2 raised to the fifth power", 32),
    ("Multiply 12 by 7.", 84),
    ("Subtract 3 from 10", 7),
    ("twelve times seven", 84),
    ("fifteen percent of eighty", 12),
    ("two thirds of 90", 60),
    ("a quarter of 80", 20),
    ("What is the percentage increase from 80 to 92?", 15),
    ("\u221a16 + \u221b27", 7),
    ("17 mod 5", 2),
    ("17 modulo 5", 2),
    ("7 % -3", -2),
    ("the remainder of 2 to the power of 100 divided by 97", 16),
    ("49 choose 6", 13983816),
    ("5!", 120),
    ("2 * 3! + 1", 13),
    ("factorial of 5", 120),
    ("the product of 12 and 9", 108),
    ("sum of 3, 4 and 5", 12),
    ("the average of 3, 4, and 8", 5),
    ("sum of 1,200, 300", 1500),
    ("the average of 1,250, 860 and 2,340", 1483.33333333333),
    ("average of -5, 10 and 15", 6.66666666666667),
    ("cube root of -27", -3),
    ("12 / twice 3", 2),
    ("2 / half of 8", 0.5),
    ("half of -8", -4),
    ("half of 80", 40),
    ("twice 8", 16),
    ("3.5 million / 2", 1750000),
    ("$1,200 * 3", 3600),
    ("15% of 80 euros", 12),
    ("2 * \u03c0", 6.28318530717959),
    ("2 + 2 = ?", 4),
    ("0x1f + 1", 32),
    ("100.10 - 100", 0.1),
    ("0.3 - 0.1 - 0.2", 0),
    ("1 mod 0.1", 0),
    ("7.2 // 0.1", 72),
    ("floor(0.29 * 100)", 29),
    ("(1 / 3) ** 2", 0.111111111111111),
]
AMBIGUOUS = [
    ("5 + 10%", "5 + 10% of 5"),
    ("Multiply 12 by 7, then add 3", "comma"),
    ("5 and 7", "sum of 5 and 7"),
    ("2 pi", "no sign between them"),
    ("3 (4 + 5)", "no sign between them"),
    ("200 - 15%", "200 - 15/100"),
    ("10% + 5", "10/100"),
    ("15% 80", "15 mod 80"),
    ("3,5 * 2", "3.5"),
    ("1,2345", "3.5"),
    ("gcd(2,340, 1,017)", "without separators"),
    ("sum of 100,200,300", "a space behind commas"),
    ("log(2,340)", "without separators"),
    ("round(2,340)", "without separators"),
    ("a = 5; b = 3; a * b", "several calculations"),
    ("12 * 3\n450 + 6", "several calculations"),
    ("3!!", "factorial"),
    ("$5 + \u20ac3", "currencies"),
]


@pytest.mark.parametrize(("expression", "value"), WRITTEN)
def test_written_arithmetic_has_its_value(expression: str, value: float) -> None:
    assert calculator({"expression": expression}) == value


def test_whole_results_have_no_decimal_point() -> None:
    assert isinstance(calculator({"expression": "144 / 12"}), int)


@pytest.mark.parametrize(("expression", "fix"), AMBIGUOUS)
def test_two_readings_are_rejected_with_both(expression: str, fix: str) -> None:
    with pytest.raises(FunctionFailed, match="cannot evaluate") as raised:
        calculator({"expression": expression})
    assert raised.value.failure.kind is FailureKind.INVALID_ARGUMENTS
    assert fix in raised.value.failure.message


def test_close_name_is_suggested() -> None:
    with pytest.raises(FunctionFailed, match="did you mean sqrt"):
        calculator({"expression": "sqroot(2)"})


@given(st.integers(0, 10**12), st.sampled_from([",", "_", " ", "'", "\u202f"]))
def test_every_grouping_is_the_same_number(number: int, separator: str) -> None:
    written = f"{number:,}".replace(",", separator)
    assert calculator({"expression": written}) == number


@given(st.integers(-999, 999), st.integers(-999, 999), st.sampled_from("+-*"))
def test_words_and_signs_are_the_same_operation(left: int, right: int, sign: str) -> None:
    word = {"+": "plus", "-": "minus", "*": "times"}[sign]
    signs = calculator({"expression": f"{left} {sign} ({right})"})
    assert calculator({"expression": f"{left} {word} ({right})"}) == signs


NUMBERS = st.integers(0, 99).map(str)
PYTHON = st.recursive(
    NUMBERS,
    lambda part: st.one_of(
        st.tuples(part, st.sampled_from(["+", "-", "*", "**", "%", "//"]), NUMBERS).map(" ".join),
        part.map("({})".format),
        part.map("-{}".format),
        st.tuples(part, part).map(lambda both: f"max({both[0]}, {both[1]})"),
    ),
    max_leaves=6,
)


@given(PYTHON)
def test_python_notation_means_what_it_means_in_python(expression: str) -> None:
    try:
        value = simple_eval(expression, functions={"max": max})
    except (ZeroDivisionError, ArithmeticError, InvalidExpression):
        return
    if isinstance(value, int) and value.bit_length() < 1000:
        assert calculator({"expression": expression}) == value


WORDS = ("1", "2,340", "3.5", "of", "root of", "square of", "sum of", "and", "choose", "mod")
PIECES = st.sampled_from([*"%()+-*/^!x,$\u221a\u00b2", *WORDS])


@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=12).map(" ".join)))
def test_no_text_raises_anything_but_a_failure(text: str) -> None:
    try:
        calculator({"expression": text})
    except FunctionFailed as failed:
        assert failed.failure.message
