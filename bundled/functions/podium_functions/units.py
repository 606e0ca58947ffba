"""Units of measurement as people write them, by pint.

Only names that pint knows reach it, one by one: its own parser would evaluate 9**9**9, and would
read kilos as kiloseconds, fl oz as femtolitre ounces and degrees C as coulomb degrees.
"""

import json
import math
import re
from functools import cache
from itertools import islice, product
from pathlib import Path
from typing import Annotated, Any

import pint
import yaml
from pint.facets.plain import PlainUnit
from pint.util import UnitsContainer
from pydantic import Field

from podium_functions.errors import closest, invalid
from podium_functions.written.numerals import NUMBER, plain_numbers, rounded

_MARKS = str.maketrans(
    {"\u00ba": "\u00b0", "\u02da": "\u00b0", "\u00b2": "2", "\u00b3": "3"}
    | dict.fromkeys("\u2212\u2013", "-")
    | dict.fromkeys("\u2032\u2019", "'")
    | dict.fromkeys("\u2033\u201d", '"')
    | dict.fromkeys("\u00b7\u22c5\u00d7", "*")
)
_SPOKEN = (
    (r"^\s*(?:in(?:to)?|to|an?|the)\s+(?=\S)|[?.,;\s]+$", ""),
    # A bracket stands only below a slash: J/(kg K).
    (r"/\s*\(([^()*]*)\*?([^()*]*)\)", r"/\1 \2"),
    (r"\bu\.s\.(?=\s)|\bamerican\b", "us"),
    (r"\bu\.k\.(?=\s)|\bbritish\b(?! thermal)|\bimperial\b", "uk"),
    (r"\.|(?<=[^\W\d])-(?=[^\W\d])", " "),
    (r"(?:\bdeg(?:ree)?s?\b|\u00b0)\s*(?=[a-z])", "degree "),
    (r"(?<=\w)\s+(?:per|an?)\s+(?=\w)", "/"),
    (r"\s*([*/])\s*", r"\1"),
)
_WORD = re.compile(r"((?!\d)[\w%\u00b0'\"]+?)(?:\^?(-?[1-9]))?")
_POWER = re.compile(r"\s*(?:\*\*|\^)\s*")
_BEFORE, _AFTER = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}, {"squared": 2, "cubed": 3}
_QUANTITY = re.compile(rf"({NUMBER})\s*(.*)", re.DOTALL)
_FEET, _INCHES = re.compile(r"(?<=\d)\s*'"), re.compile(r"(?<=\d)\s*(?:\"|'')")
_MINUS = re.compile(r"^\s*(?:-|minus\b|negative\b)\s*", re.IGNORECASE)
_ARTICLE = re.compile(r"^\s*(half )?an?\s+", re.IGNORECASE)
# The question continues behind the amount: "26.2 miles in kilometres".
_ASIDE = re.compile(r"(?<=[^\d\s])\s+(?:in(?:to)?|to|as)\s+[^\d\s][^\d]*$", re.IGNORECASE)
_NEXT_QUANTITY = re.compile(r"(?:,|\band\b|\s)+(?=\d)", re.IGNORECASE)
_READINGS_MAX = 16
SIGNIFICANT_DIGITS = 12

Readings = list[PlainUnit]
"""What a written unit can mean, the likeliest first."""


class _UnknownUnit(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def convert_units(
    value: Annotated[
        float | Annotated[str, Field(min_length=1, max_length=60)],
        Field(description="The amount as written, with its unit, for example 5 feet 11 inches."),
    ],
    *,
    from_unit: Annotated[
        str, Field(description="Unit of the amount, if it has none.", max_length=60)
    ] = "",
    to_unit: Annotated[
        str,
        Field(
            description="The unit asked for, as written, for example miles per hour.",
            min_length=1,
            max_length=60,
        ),
    ],
) -> dict[str, Any]:
    try:
        amounts = _amounts(value, from_unit)
        return _converted(amounts, _readings(to_unit))
    except _UnknownUnit as error:
        raise invalid(_unknown(error.name, value, to_unit)) from error
    except pint.DimensionalityError as error:
        raise invalid(f"{error}; choose two units of the same kind") from error
    except (pint.PintError, ValueError, TypeError, OverflowError, ArithmeticError) as error:
        amount = f"{value} {from_unit}".rstrip()
        raise invalid(f'cannot convert "{amount}" to "{to_unit}": {error}') from error


def _converted(amounts: list[tuple[float, Readings]], targets: Readings) -> dict[str, Any]:
    """The amounts together. Raises DimensionalityError for units of different kinds."""
    numbers, readings = zip(*amounts, strict=True)
    pairs = product(product(*readings), targets)
    units, target = next(
        (
            pair
            for pair in pairs
            if {unit.dimensionality for unit in pair[0]} == {pair[1].dimensionality}
        ),
        ([each[0] for each in readings], targets[0]),
    )
    total = math.fsum(
        float(_registry().Quantity(number, unit).to(target).magnitude)
        * (_per_hertz(unit, target) / _per_hertz(target, unit))
        for number, unit in zip(numbers, units, strict=True)
    )
    if not math.isfinite(total):
        raise ValueError("the amount is too large")
    if len(units) > 1 and target.dimensionality == {"[temperature]": 1}:
        raise ValueError("two temperatures cannot be added")
    return {"value": rounded(total, SIGNIFICANT_DIGITS), "unit": f"{target}"}


def _per_hertz(unit: PlainUnit, other: PlainUnit) -> float:
    """A hertz is one turn a second; pint, to which radians are no dimension, takes one radian."""
    turns = "radian" in f"{_registry().get_root_units(other)[1]}"
    return math.tau if turns and "hertz" in f"{unit}" else 1.0


def _amounts(value: float | str, from_unit: str) -> list[tuple[float, Readings]]:
    """Each number with its unit: "5 feet 11 inches" is two."""
    if not isinstance(value, str):
        unit = from_unit or _missing(f"{rounded(value, SIGNIFICANT_DIGITS)}")
        return [(value, _readings(unit))]
    text = _POWER.sub("^", value.translate(_MARKS))
    text = _FEET.sub(" foot ", _INCHES.sub(" inch ", text))
    text, minus = _MINUS.subn("", _ASIDE.sub("", text))
    text = _ARTICLE.sub(lambda found: "0.5 " if found[1] else "1 ", text)
    text = plain_numbers(text.strip(" ~+?"))
    if comma := re.search(r"[\d.]*\d,\d+", text):
        plain = comma[0].replace(".", "").replace(",", ".")
        raise ValueError(f"write {plain}, not {comma[0]}")
    found = [_QUANTITY.fullmatch(part) for part in _NEXT_QUANTITY.split(text)]
    if not all(found):
        raise ValueError('write a number and its unit, for example "12.5 km"')
    written = [(part[1], part[2] or from_unit or _missing(part[1])) for part in found if part]
    unit = written[0][1]
    if from_unit and len(written) == 1 and not set(_readings(unit)) & set(_readings(from_unit)):
        raise ValueError(f"it is either {unit} or {from_unit}; leave from_unit out")
    return [(-float(each) if minus else float(each), _readings(unit)) for each, unit in written]


def _missing(number: str) -> str:
    raise ValueError(f'{number} has no unit; write the unit with it, for example "{number} miles"')


def _readings(text: str) -> Readings:
    spoken = _POWER.sub("^", text.translate(_MARKS))
    for pattern, written in _SPOKEN:
        spoken = re.sub(pattern, written, spoken, flags=re.IGNORECASE)
    words = spoken.split()
    if named := _named(words):
        return named
    factors: list[Readings] = []
    for sign, factor in re.findall(r"(^|[*/])([^*/]*)", spoken):
        factors += _powers(factor.split(), -1 if sign == "/" else 1)
    if not factors:
        raise _UnknownUnit(text)
    return [math.prod(each[1:], start=each[0]) for each in islice(product(*factors), _READINGS_MAX)]


def _difference(unit: PlainUnit) -> PlainUnit:
    """A degree in "J/(kg °C)" is a step of the scale, not a point on it."""
    on_a_scale = f"{unit}" in ("degree_Celsius", "degree_Fahrenheit")
    return _registry().Unit(f"delta_{unit}") if on_a_scale else unit


def _powers(words: list[str], sign: int) -> list[Readings]:
    """Units that stand side by side: "square feet", "kg m2", "kilowatt hours"."""
    found: list[Readings] = []
    power = sign
    while words:
        if words[0].lower() in _BEFORE:
            power = sign * _BEFORE[words.pop(0).lower()]
            continue
        if found and words[0].lower() in _AFTER:
            found[-1] = [unit ** _AFTER[words[0].lower()] for unit in found[-1]]
            words = words[1:]
            continue
        length, units = _longest(words)
        found.append([_difference(unit) ** power for unit in units])
        words, power = words[length:], sign
    return found


def _longest(words: list[str]) -> tuple[int, Readings]:
    for length in range(len(words), 0, -1):
        last = _WORD.fullmatch(words[length - 1])
        if last and (units := _named([*words[: length - 1], last[1]])):
            return length, [unit ** int(last[2] or 1) for unit in units]
    raise _UnknownUnit(words[0])


def _named(words: list[str]) -> Readings:
    for name in dict.fromkeys((" ".join(words), " ".join(words).casefold())):
        one = name.removesuffix("s")
        if listed := _names().get(name) or _names().get(one):
            return [_registry().Unit(each) for each in listed]
        if known := _registry().parse_unit_name(name.replace(" ", "_")):
            return _units(known)
    any_case = (
        _registry().parse_unit_name(name, case_sensitive=False)
        for name in ("_".join(words), "_".join(words).casefold())
    )
    return _units(next(filter(None, any_case), ()))


def _units(known: tuple[tuple[str, str, str], ...]) -> Readings:
    return [_registry().Unit(UnitsContainer({prefix + name: 1})) for prefix, name, _ in known]


def _unknown(name: str, value: float | str, to_unit: str) -> str:
    meant = closest(name, [*_names(), *_registry()])
    if not meant:
        return f'unknown unit "{name}"; use its English name or symbol, for example miles or km'
    example = {"value": str(value).replace(name, meant), "to_unit": to_unit.replace(name, meant)}
    shown = json.dumps(example, ensure_ascii=False)
    return f'unknown unit "{name}"; did you mean {meant}? Example: {shown}'


@cache
def _names() -> dict[str, list[str]]:
    return yaml.safe_load((Path(__file__).with_name("names") / "units.yaml").read_text())  # type: ignore[no-any-return]


@cache
def _registry() -> pint.UnitRegistry[Any]:
    return pint.UnitRegistry()
