"""One fact about a country, city, airport, element or compound, as a bundled tool states it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

import periodictable

from podium_training.tasks.draft import Draft, solve
from podium_training.tasks.splits import members
from podium_training.tasks.task import Call, Split
from tool_adapters.functions.airports import airports
from tool_adapters.functions.countries import countries, geonames

COUNTRY_PEOPLE_MIN, CITY_PEOPLE_MIN = 500_000, 1_000_000
ELEMENTS = 103
SALTS = (
    (("Li", "Na", "K", "Rb", "Ag"), ("F", "Cl", "Br", "I", "NO3", "OH")),
    (("Mg", "Ca", "Ba", "Zn", "Fe", "Cu"), ("Cl2", "O", "CO3", "SO4")),
)


@dataclass(frozen=True)
class Fact:
    """Questions a tool answers with one of its fields."""

    kind: str
    tool: str
    parameters: tuple[str, ...]
    """Arguments of the tool: one is asked about, or two."""
    field: str
    verifier: str
    names: Callable[[], Sequence[str]]


def draw(random: Random, split: Split) -> Draft:
    fact = random.choice(_facts())
    names = random.sample(members(fact.names(), split), len(fact.parameters))
    call = Call(fact.tool, dict(zip(fact.parameters, names, strict=True)))
    parameters = {"expected": solve(call)[fact.field]}
    entities = dict(zip(("name", "other"), names, strict=False))
    return Draft(fact.kind, entities, fact.verifier, parameters, (call,))


@cache
def _facts() -> tuple[Fact, ...]:
    country, city, airport = ("country",), ("city",), ("code",)
    return (
        Fact("capital", "country_facts", country, "capital", "contains", large_countries),
        Fact("population", "country_facts", country, "population", "numeric", large_countries),
        Fact("area", "country_facts", country, "area_km2", "numeric", large_countries),
        Fact("currency_code", "country_facts", country, "currency", "contains", large_countries),
        Fact("population", "city_facts", city, "population", "numeric", _cities),
        Fact("atomic_number", "element_facts", ("element",), "atomic_number", "numeric", _elements),
        Fact("element_name", "element_facts", ("element",), "name", "contains", _numbers),
        Fact("symbol", "element_facts", ("element",), "symbol", "contains", _elements),
        Fact(
            "molar_mass", "molar_mass", ("formula",), "molar_mass_g_per_mol", "numeric", _compounds
        ),
        Fact("airport_city", "airport_facts", airport, "city", "contains", large_airports),
        Fact(
            "airport_distance",
            "airport_distance",
            ("from_code", "to_code"),
            "distance_km",
            "numeric",
            large_airports,
        ),
        Fact(
            "city_distance",
            "city_distance",
            ("from_city", "to_city"),
            "distance_km",
            "numeric",
            _cities,
        ),
    )


@cache
def large_countries() -> tuple[str, ...]:
    """Of more than a handful of people, with a capital in plain letters; in order."""
    listed = countries().values()
    return tuple(
        sorted(
            each["name"]
            for each in listed
            if each["population"] >= COUNTRY_PEOPLE_MIN and each["capital"].isascii()
        )
    )


@cache
def _cities() -> tuple[str, ...]:
    """Large cities whose names no other large city has."""
    listed = [
        each["name"]
        for each in geonames().get_cities().values()
        if each["population"] >= CITY_PEOPLE_MIN and each["name"].isascii()
    ]
    return tuple(sorted(name for name in set(listed) if listed.count(name) == 1))


@cache
def _elements() -> tuple[str, ...]:
    return tuple(periodictable.elements[number].name for number in range(1, ELEMENTS + 1))


def _numbers() -> Sequence[str]:
    return [str(number) for number in range(1, ELEMENTS + 1)]


def _compounds() -> Sequence[str]:
    return [metal + rest for metals, rests in SALTS for metal in metals for rest in rests]


@cache
def large_airports() -> tuple[str, ...]:
    """Of places whose names are letters alone, so that there is one way to write them."""
    listed = airports().items()
    return tuple(
        sorted(
            code
            for code, each in listed
            if each["city"].isascii() and each["city"].isalpha() and "International" in each["name"]
        )
    )
