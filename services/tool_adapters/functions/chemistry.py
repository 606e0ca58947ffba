"""Elements and formulas, by periodictable."""

from typing import Annotated, Any

import periodictable
from periodictable.core import Element
from pydantic import Field
from pyparsing import ParseException

from tool_adapters.functions.errors import invalid, not_found


def element_facts(
    element: Annotated[
        str,
        Field(
            description="Symbol, English name or atomic number, for example Fe, iron or 26.",
            min_length=1,
            max_length=20,
        ),
    ],
) -> dict[str, Any]:
    """Symbol, name, atomic number, mass and density of a chemical element."""
    found = _element(element.strip())
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
            description="Chemical formula, for example H2O or Ca(OH)2.",
            min_length=1,
            max_length=100,
        ),
    ],
) -> dict[str, Any]:
    """Molar mass of a compound in g/mol, with atoms and mass fractions of its elements."""
    try:
        parsed = periodictable.formula(formula)
    except (ValueError, ParseException) as error:
        raise invalid(f"{formula!r} is no formula; write it like C6H12O6 or Ca(OH)2") from error
    if not parsed.mass:
        raise invalid(f"{formula!r} names no atoms; write it like C6H12O6 or Ca(OH)2")
    return {
        "molar_mass_g_per_mol": round(parsed.mass, 4),
        "atoms": {str(atom): count for atom, count in parsed.atoms.items()},
        "mass_fractions": {
            str(atom): round(part, 6) for atom, part in parsed.mass_fraction.items()
        },
    }


def _element(name: str) -> Element:
    for candidate in periodictable.elements:
        names = (candidate.symbol.casefold(), candidate.name, str(candidate.number))
        if name.casefold() in names:
            return candidate
    raise not_found(
        f"no element is called {name!r}; use a symbol such as Fe or a name such as iron"
    )
