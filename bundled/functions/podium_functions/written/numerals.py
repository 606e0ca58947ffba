"""Numbers as people write them: 2,340 and 1 017, 3.5 million, 2 1/2 and twelve.

A comma groups thousands only with three digits behind it; a decimal comma is rejected, not guessed.
"""

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import yaml

# A comma also groups Indian lakhs: 12,34,567.
GROUPED = (
    r"\d{1,3}(?:,\d{3})+(?!,?\d)|\d{1,2}(?:,\d{2})+,\d{3}(?!,?\d)"
    r"|[1-9]\d{0,2}(?:[ \u00a0\u2009\u202f'\u2019]\d{3})+(?!\d)"
)
NUMBER = rf"(?:(?:{GROUPED})(?:\.\d+)?|\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+(?![\w.]))?"
WORDS: dict[str, dict[str, int]] = yaml.safe_load(
    (Path(__file__).parents[1] / "names" / "numbers.yaml").read_text(encoding="utf-8")
)
SCALES = WORDS["scales"]
# Beyond every float.
EXPONENT_MAX = 400
_SPELLED = re.compile(
    rf"\b(?:({'|'.join(WORDS['tens'])})(?:[ -]({'|'.join(WORDS['units'])}))?"
    rf"|({'|'.join(WORDS['units'] | WORDS['teens'])}))\b",
    re.IGNORECASE,
)
_ORDINAL = re.compile(
    rf"\b({'|'.join(sorted(WORDS['ordinals'], key=len, reverse=True))})(?=s?\b)".replace(
        " ", "[ -]"
    ),
    re.IGNORECASE,
)
_VALUES = WORDS["units"] | WORDS["teens"] | WORDS["tens"]
_SEPARATORS = re.compile("[,_ \u00a0\u2009\u202f'\u2019]")
# From the beginning of its digits alone, or a long row of them would be read from each.
_SCALED = re.compile(rf"(?<![\d_])({NUMBER})[ -]?({'|'.join(SCALES)})\b", re.IGNORECASE)
_MIXED = re.compile(r"(?<![\d.,])(?:(\d{1,9}) )?(\d{1,9}) ?[/\u2044] ?([1-9]\d{0,8})(?![\d.,])")


def without_separators(number: str) -> str:
    """2,340 as 2340."""
    return _SEPARATORS.sub("", number)


def plain_numbers(text: str) -> str:
    """The text with every number in plain digits: "1,200 lb" as "1200 lb"."""
    text = _MIXED.sub(_decimal, spelled_out(text))
    text = _SCALED.sub(_multiplied, text)
    return re.sub(NUMBER, lambda found: without_separators(found[0]), text)


def spelled_out(text: str) -> str:
    return _SPELLED.sub(_digits, text)


def spelled_ordinals(text: str) -> str:
    """Twenty-first as 21th. Not for units, where a second is none."""
    return _ORDINAL.sub(_place, text)


def rounded(value: float, significant_digits: int) -> int | float:
    """Rounds a number for a result: 12 and not 12.0, so that it can be copied."""
    shown = float(f"{value:.{significant_digits}g}")
    return int(shown) if shown.is_integer() and abs(shown) < 10**significant_digits else shown


def _place(ordinal: re.Match[str]) -> str:
    return f"{WORDS['ordinals'][ordinal[0].lower().replace('-', ' ')]}th"


def _digits(words: re.Match[str]) -> str:
    return str(sum(_VALUES[word.lower()] for word in words.groups() if word))


def _decimal(fraction: re.Match[str]) -> str:
    whole, numerator, denominator = fraction.groups()
    return repr(float(int(whole or 0) + Fraction(int(numerator), int(denominator))))


def _multiplied(scaled: re.Match[str]) -> str:
    number = Decimal(without_separators(scaled[1]))
    # Written out, an exponent of nine digits is a text of a gigabyte.
    if abs(number.adjusted()) > EXPONENT_MAX:
        return scaled[0]
    return f"{number * SCALES[scaled[2].lower()]:f}"
