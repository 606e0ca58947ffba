"""Elements and formulas, by periodictable."""

import re
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import periodictable
import yaml
from periodictable.core import Element
from periodictable.formulas import Formula
from pydantic import Field
from pyparsing import ParseException

from podium_functions.errors import closest, invalid, not_found

SPELLINGS: dict[str, str] = yaml.safe_load(
    (Path(__file__).with_name("names") / "elements.yaml").read_text(encoding="utf-8")
)
COMPOUNDS: dict[str, str] = yaml.safe_load(
    (Path(__file__).with_name("names") / "compounds.yaml").read_text(encoding="utf-8")
)
WORD_MAX = 30
DIATOMIC = {"hydrogen", "nitrogen", "oxygen", "fluorine", "chlorine", "bromine", "iodine"}
# In capitals these are compounds and groups; other capitals are a symbol: AU is gold.
NO_SYMBOLS = {"CO", "NO", "HF", "CN", "NH", "HS", "HO"}
NOTATIONS = tuple(
    (re.compile(pattern), notation)
    for pattern, notation in (
        # Water of crystallisation, which the parser would read as a fraction: CuSO4.5H2O.
        (r"\s*(?:[\u00b7\u2022\u2219\u22c5*]|\.(?=\s*\d*H2O))\s*", "+"),
        (r"\[([^\[\]]*[A-Za-z][^\[\]]*)\]", r"(\1)"),
        (r"\s*\((?:s|l|g|aq)\)\s*$|[\s?.]+$", ""),
    )
)


def element_facts(
    element: Annotated[
        str,
        Field(
            description="Name, symbol or atomic number as written, for example iron, Fe or 26.",
            min_length=1,
            max_length=40,
        ),
    ],
) -> dict[str, Any]:
    found = _element(element)
    return {
        "symbol": found.symbol,
        "name": found.name,
        "atomic_number": found.number,
        "atomic_mass_u": round(found.mass, 5),
        "density_g_per_cm3": found.density,
    }


def molar_mass(
    formula: Annotated[
        str,
        Field(
            description="The formula as written, for example H2O or Ca(OH)2.",
            min_length=1,
            max_length=100,
        ),
    ],
) -> dict[str, Any]:
    parsed = _formula(formula)
    return {
        "molar_mass_g_per_mol": round(parsed.mass, 4),
        "atoms": {str(atom): count for atom, count in parsed.atoms.items()},
        "mass_fractions": {
            str(atom): round(part, 6) for atom, part in parsed.mass_fraction.items()
        },
    }


def _element(written: str) -> Element:
    """Finds an element by symbol, name or number, also in "element 79" or "Fe (iron)". Raises
    FunctionFailed.
    """
    named, plain = _elements(), written.casefold().strip(" ?.")
    if plain not in named:
        plain = re.sub(r"\b(?:the|chemical|element|atomic|number|symbol|no)\b", " ", plain)
    words = [SPELLINGS.get(word, word) for word in re.findall(r"[a-z]+|\d+", plain)]
    found = {named[word].number: named[word] for word in words if word in named}
    if len(found) == 1 and all(word in named for word in words):
        return next(iter(found.values()))
    if found:
        raise invalid(f'"{written}" names {len(found)} elements and other words; write one element')
    meant = closest(written.strip(), named)
    hint = f"did you mean {meant}?" if meant else "write a symbol such as Fe or a name such as iron"
    raise not_found(f'no element is called "{written}"; {hint}')


@cache
def _elements() -> dict[str, Element]:
    return {
        name: each
        for each in periodictable.elements
        for name in (each.symbol.casefold(), each.name, str(each.number))
    }


def _formula(written: str) -> Formula:
    """The one formula in a text such as "caffeine, C8H10N4O2", or of a common name.

    Raises FunctionFailed.
    """
    plain = COMPOUNDS.get(" ".join(written.casefold().split()).strip(" ?."), written)
    for pattern, notation in NOTATIONS:
        plain = pattern.sub(notation, plain)
    name = plain.strip().casefold()
    if name in DIATOMIC:
        symbol = _elements()[name].symbol
        raise invalid(f'"{written}" may be {symbol} or {symbol}2; write which')
    if name in _elements() and name.isalpha() and name.upper() not in NO_SYMBOLS:
        plain = _elements()[name].symbol
    if whole := _parsed(plain):
        return whole
    words = [word.strip("(),;:") for word in plain.split()]
    parsed = [found for word in words if not word.islower() and (found := _parsed(word))]
    if len(parsed) == 1:
        return parsed[0]
    readings = _capitalised(plain.strip()) if plain.islower() and len(plain) < WORD_MAX else []
    if len(readings) == 1 and (found := _parsed(readings[0])):
        # Letters alone may be a word: water is not W, At and Er.
        if len(found.atoms) < 3 or not plain.isalpha():
            return found
        readings = []
    hint = f"write {' or '.join(readings)}" if readings else "write it like C6H12O6 or Ca(OH)2"
    raise invalid(f'"{written}" is no formula; {hint}')


def _parsed(formula: str) -> Formula | None:
    try:
        found: Formula = periodictable.formula(formula)
    except (ValueError, KeyError, RecursionError, ParseException):
        return None
    # Of no atoms, as in H0 or (), there are no fractions either.
    return found if found.mass else None


def _capitalised(formula: str) -> list[str]:
    """Returns the readings of small letters, two at most: h2o is H2O, but co2 is CO2 or Co2."""
    symbols = {
        each.symbol.casefold(): each.symbol for each in periodictable.elements if each.number
    }
    endings: list[list[str]] = [[] for _ in formula] + [[""]]
    for place in range(len(formula) - 1, -1, -1):
        for length in (1, 2):
            part = formula[place : place + length]
            start = part if length == 1 and part in "0123456789()" else symbols.get(part, "")
            if start and place + length <= len(formula):
                endings[place] += [start + rest for rest in endings[place + length]]
        endings[place] = endings[place][:2]
    return endings[0]
