"""Amounts in other units."""

from decimal import Decimal
from random import Random

from podium_training.tasks.draft import Draft, Phrasings, solve
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
PHRASINGS = Phrasings(
    (
        "Convert {value} {from_name} to {to_name}.",
        "How much is {value} {from_name} in {to_name}?",
        "Express {value} {from_name} in {to_name}.",
        "Change {value} {from_name} into {to_name}.",
        "{value} {from_name} = ? {to_name}",
        "The label says {value} {from_name}. What is that in {to_name}?",
        "I measured {value} {from_name}, but need the figure in {to_name}.",
        "What is {value} {from_name} when the unit is {to_name}?",
        "How many {to_name} are {value} {from_name}?",
        "How many {to_name} make {value} {from_name}?",
        "Turn {value} {from_name} into {to_name}.",
        "My sister reckons in {to_name}. What do I tell her for {value} {from_name}?",
        "A report says {value} {from_name}. Its reader wants {to_name}. What should it say?",
        "{value} {from_name}, please, but in {to_name}.",
        "Put {value} {from_name} down in {to_name}.",
        "The sign is in {to_name}. Which number stands there for {value} {from_name}?",
        "Calculate what {value} {from_name} are in {to_name}.",
        "I have {value} {from_name}. How many {to_name} do I have?",
        "Write {value} {from_name} as a number of {to_name}.",
        "How many {to_name} equal {value} {from_name}?",
        "The manual gives {value} {from_name}, but my tool shows {to_name}. What should I set?",
        "{value} {from_name} to {to_name}?",
        "From {from_name} to {to_name}: how much is {value}?",
        "An order is for {value} {from_name}. The seller counts in {to_name}. How much is it"
        " there?",
        "Translate {value} {from_name} into {to_name} for me.",
        "We need {value} {from_name} of it. How much is that, given in {to_name}?",
        "In {to_name}, how much is {value} {from_name}?",
    ),
    (
        "Give {value} {from_name} as {to_name}.",
        "A form asks for {to_name}, but I only know it is {value} {from_name}. What do I write?",
        "What would a gauge marked in {to_name} show for {value} {from_name}?",
        "Restate {value} {from_name} with {to_name} as the unit.",
    ),
)


def draw(random: Random, split: Split) -> Draft:
    """An amount and two units of the same kind; the answer within 0.1 %."""
    # Every kind as often, however many units it has.
    start, end = random.choice(random.choice(_pairs(split)))
    value = number(random, split, 20, 9999) / 10
    call = Call("convert_units", {"value": value, "from_unit": start, "to_unit": end})
    found = solve(call)["value"]
    name = random.choice((_one, _many))
    names = {"from_name": name(start), "to_name": name(end)}
    parameters = {"expected": plain(found), "tolerance": plain(abs(found) / 1000)}
    return Draft(PHRASINGS, {"value": value, **names}, "numeric", parameters, (call,))


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
