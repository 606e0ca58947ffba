"""The words, places and numbers of each split; the splits share none."""

import hashlib
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import lru_cache
from random import Random
from typing import TypeVar

from podium_training.tasks.task import Split

T = TypeVar("T")
# One entity in so many is held out.
HELD_OUT_EVERY = 5
# Those with names are drawn again and again.
ENTITIES_KNOWN = 65_536


def split_of(entity: object) -> Split:
    """The one split that may ask about an entity; the same for ever, on every machine."""
    return _split_of(str(entity))


@lru_cache(ENTITIES_KNOWN)
def _split_of(entity: str) -> Split:
    digest = hashlib.sha256(entity.encode()).digest()
    return Split.HELD_OUT if digest[0] % HELD_OUT_EVERY == 0 else Split.TRAIN


def members(entities: Iterable[T], split: Split) -> list[T]:
    return [entity for entity in entities if split_of(entity) is split]


def drawn(draw: Callable[[], T], split: Split) -> T:
    while split_of(entity := draw()) is not split:
        pass
    return entity


def number(random: Random, split: Split, low: int, high: int) -> int:
    """A whole number of the split, from low to high, both included."""
    return drawn(lambda: random.randint(low, high), split)


def takes_th(number: int) -> bool:
    """24th, but 21st, 22nd and 23rd."""
    return number % 100 in (11, 12, 13) or number % 10 not in (1, 2, 3)


# How often a number has no decimals, one, or two.
PLACES = (0, 0, 0, 0, 1, 1, 2)
SEPARATED = 0.5
"""Share of numbers of thousands that are written with separators."""


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
