"""Families of tasks in turn, so that rare ones come as often as others."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, cycle
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


def in_turn(items: Iterable[Item], family: Callable[[Item], str], random: Random) -> Iterator[Item]:
    """One of each family, then the next of each, without end; each family in an order of chance."""
    families: dict[str, list[Item]] = defaultdict(list)
    for each in items:
        families[family(each)].append(each)
    for of_family in families.values():
        random.shuffle(of_family)
    return chain.from_iterable(zip(*(cycle(each) for each in families.values()), strict=False))
