import math
from decimal import Decimal
from random import Random

# How often a number has no decimals, one, or two.
PLACES = (0, 0, 0, 0, 1, 1, 2)
SEPARATED = 0.5
"""How often a number of thousands is written with separators."""


def whole(random: Random, low: int, high: int) -> Decimal:
    """Draws a number whose count of digits is uniform."""
    return Decimal(round(math.exp(random.uniform(math.log(low), math.log(high)))))


def amount(random: Random, low: int, high: int, places: tuple[int, ...] = PLACES) -> Decimal:
    """A whole number or one with few decimals."""
    shift = random.choice(places)
    found = whole(random, low * 10**shift, high * 10**shift).scaleb(-shift)
    return plain(found)


def plain(number: Decimal) -> Decimal:
    """Writes a number without trailing zeros and without an exponent."""
    return number.quantize(Decimal(1)) if number == int(number) else number.normalize()


def written(random: Random, number: Decimal) -> str:
    """1250 also as 1,250."""
    return f"{number:,f}" if random.random() < SEPARATED else f"{number:f}"


def decimals(number: Decimal) -> int:
    return max(0, -int(plain(number).as_tuple().exponent))
