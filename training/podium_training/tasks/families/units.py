"""Amounts in other units."""

from decimal import Decimal
from random import Random

from podium_training.tasks.draft import Draft, solve
from podium_training.tasks.splits import members, number
from podium_training.tasks.task import Call, Split

KINDS = (
    ("mile", "kilometre", "foot", "metre", "inch", "yard", "nautical_mile"),
    ("pound", "kilogram", "ounce", "gram", "stone"),
    ("hour", "minute", "second", "day", "week"),
    ("acre", "hectare", "square_mile", "square_foot"),
    ("gallon", "litre", "pint", "cup"),
    ("joule", "calorie", "kilowatt_hour", "megajoule"),
    ("celsius", "fahrenheit", "kelvin"),
    ("kilometre/hour", "mile/hour", "metre/second", "knot"),
    ("bar", "psi", "kilopascal", "atmosphere"),
)
PAIRS = [[(a, b) for a in kind for b in kind if a != b] for kind in KINDS]
# As people write more than one of a unit, where it is no "s" that makes it many.
MANY = {
    "foot": "feet",
    "inch": "inches",
    "stone": "stone",
    "square_foot": "square feet",
    "celsius": "degrees Celsius",
    "fahrenheit": "degrees Fahrenheit",
    "kelvin": "kelvin",
    "bar": "bar",
    "psi": "psi",
    "kilometre/hour": "kilometres per hour",
    "mile/hour": "miles per hour",
    "metre/second": "metres per second",
}


def draw(random: Random, split: Split) -> Draft:
    """An amount and two units of the same kind; the answer within 0.1 %."""
    # Every kind as often, however many units it has.
    start, end = random.choice(random.choice(_pairs(split)))
    value = number(random, split, 20, 9999) / 10
    call = Call("convert_units", {"value": value, "from_unit": start, "to_unit": end})
    found = solve(call)["value"]
    name = random.choice((_one, _many))
    names = {"from_unit": name(start), "to_unit": name(end)}
    parameters = {"expected": plain(found), "tolerance": plain(abs(found) / 1000)}
    return Draft("conversion", {"value": value, **names}, "numeric", parameters, (call,))


def _pairs(split: Split) -> list[list[tuple[str, str]]]:
    """The split's pairs of each kind; kinds without one are left out."""
    return [pairs for kind in PAIRS if (pairs := members(kind, split))]


def _one(unit: str) -> str:
    return unit.replace("_", " ").replace("/", " per ")


def _many(unit: str) -> str:
    return MANY.get(unit, _one(unit) + "s")


def plain(amount: float) -> str:
    """The digits that a tool's answer shows, so that they can be copied; never an exponent."""
    return f"{Decimal(repr(amount)):f}"
