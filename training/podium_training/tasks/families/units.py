from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random

import yaml

from podium_training.tasks.draft import Draft, decimal_text, solve
from podium_training.tasks.kinds import kinds
from podium_training.tasks.splits import amount, drawn, members, plain, written
from podium_training.tasks.task import Call, Split

GENERAL = "conversion"
# Smaller or larger results are nothing that people copy.
SMALLEST, LARGEST = 0.01, 1e9
DEGREES = (-80, 900)
# How many of the smaller unit make the larger one, which people write together.
TOGETHER = {
    "foot": ("inch", 12),
    "stone": ("pound", 14),
    "hour": ("minute", 60),
    "pound": ("ounce", 16),
}


def draw(random: Random, split: Split) -> Draft:
    """The answer within 0.1 %, or 0.06 degrees."""
    while True:
        # Every kind of unit as often, however many units it has.
        unit_kind = random.choice(list(_pairs(split)))
        start, end = random.choice(_pairs(split)[unit_kind])
        text = _amount(random, split, unit_kind, start)
        wanted = random.choice(units()[unit_kind][end]["wanted"])
        call = Call("convert_units", {"value": text, "to_unit": wanted})
        found = solve(call)["value"]
        if unit_kind == "temperature" or SMALLEST < abs(found) < LARGEST:
            break
    kind = random.choice([each for each in (GENERAL, unit_kind) if each in kinds("units")])
    tolerance = Decimal(repr(abs(found))) / 1000
    if unit_kind == "temperature":
        tolerance = max(tolerance, Decimal("0.06"))
    parameters = {"expected": decimal_text(found), "tolerance": f"{tolerance:f}"}
    return Draft(kind, {"amount": text, "to_unit": wanted}, "numeric", parameters, (call,))


def _amount(random: Random, split: Split, kind: str, unit: str) -> str:
    """26.2 miles, or 5 feet 11 inches."""
    number = _number(random, split, kind)
    name = random.choice(units()[kind][unit]["amount"])
    if unit in TOGETHER and len(name) > 2 and number == int(number) and random.random() < 0.4:
        smaller, most = TOGETHER[unit]
        rest = random.choice(members(range(1, most), split))
        joint = random.choice((" ", " and "))
        return f"{number:f} {name}{joint}{rest} {units()[kind][smaller]['amount'][0]}"
    # Short signs also stand right behind the number.
    blank = "" if len(name) <= 2 and random.random() < 0.3 else " "
    return f"{written(random, number)}{blank}{name}"


def _number(random: Random, split: Split, kind: str) -> Decimal:
    if kind != "temperature":
        high = random.choice((60, 500, 20_000))
        return drawn(lambda: amount(random, 2, high), split)
    places = random.choice((0, 0, 1))
    low, high = (bound * 10**places for bound in DEGREES)
    return drawn(lambda: plain(Decimal(random.randint(low, high)).scaleb(-places)), split)


@cache
def units() -> dict[str, dict[str, dict[str, list[str]]]]:
    """Returns units by kind and name: the endings of amounts, and the names in questions."""
    found = yaml.safe_load(Path(__file__).parents[1].joinpath("units.yaml").read_text("utf-8"))
    return dict(found)


@cache
def _pairs(split: Split) -> dict[str, list[tuple[str, str]]]:
    """The split's pairs of units of each kind; where they are few, amounts alone are split."""
    pairs = {kind: [(a, b) for a in each for b in each if a != b] for kind, each in units().items()}
    return {kind: members(each, split) or each for kind, each in pairs.items()}
