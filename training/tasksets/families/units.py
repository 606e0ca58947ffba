"""Amounts in other units."""

from random import Random

from tasksets.draft import Draft, Wordings, solve
from tasksets.splits import members, number
from tasksets.task import Call, Split

KINDS = (
    ("mile", "kilometre", "foot", "metre", "inch", "yard", "nautical_mile"),
    ("pound", "kilogram", "ounce", "gram", "stone"),
    ("hour", "minute", "second", "day", "week"),
    ("acre", "hectare", "square_mile", "square_foot"),
    ("gallon", "litre", "pint", "cup"),
    ("joule", "calorie", "kilowatt_hour", "megajoule"),
)
PAIRS = [(a, b) for kind in KINDS for a in kind for b in kind if a != b]
WORDINGS = Wordings(
    (
        "Convert {value} {from_name} to {to_name}.",
        "How much is {value} {from_name} in {to_name}?",
        "Express {value} {from_name} in {to_name}.",
        "Change {value} {from_name} into {to_name}.",
        "{value} {from_name} = ? {to_name}",
        "The label says {value} {from_name}. What is that in {to_name}?",
        "I measured {value} {from_name}, but need the figure in {to_name}.",
        "What is {value} {from_name} when the unit is {to_name}?",
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
    start, end = random.choice(members(PAIRS, split))
    value = number(random, split, 20, 9999) / 10
    call = Call("convert_units", {"value": value, "from_unit": start, "to_unit": end})
    found = solve(call)["value"]
    names = {"from_name": start.replace("_", " "), "to_name": end.replace("_", " ")}
    parameters = {"expected": _plain(found), "tolerance": _plain(abs(found) / 1000)}
    return Draft(WORDINGS, {"value": value, **names}, "numeric", parameters, (call,))


def _plain(amount: float) -> str:
    return f"{amount:.12f}".rstrip("0").rstrip(".")
