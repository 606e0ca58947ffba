from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

import periodictable

from podium_functions.airports import airports
from podium_functions.countries import countries, country_name, geonames
from podium_training.tasks.draft import Draft, solve
from podium_training.tasks.splits import members
from podium_training.tasks.task import Call, Split

COUNTRY_PEOPLE_MIN, CITY_PEOPLE_MIN = 500_000, 1_000_000
ELEMENTS = 103
LISTED_MAX = 6
SALTS = (
    (("Li", "Na", "K", "Rb", "Ag"), ("F", "Cl", "Br", "I", "NO3", "OH")),
    (("Mg", "Ca", "Ba", "Zn", "Fe", "Cu"), ("Cl2", "O", "CO3", "SO4")),
)
Names = Callable[[], Sequence[str]]


@dataclass(frozen=True)
class Fact:
    """Questions a tool answers with one of its fields."""

    kind: str
    tool: str
    parameters: tuple[str, ...]
    """Arguments of the tool: one is asked about, or two."""
    field: str
    verifier: str
    names: Names


def draw(random: Random, split: Split) -> Draft:
    fact = random.choice((*FACTS, None))
    if fact is None:
        return _population_in(random, split)
    while True:
        names = random.sample(members(fact.names(), split), len(fact.parameters))
        call = Call(fact.tool, dict(zip(fact.parameters, names, strict=True)))
        expected = solve(call)[fact.field]
        if _is_askable(expected, fact.verifier):
            break
    entities = dict(zip(("name", "other"), names, strict=False))
    return Draft(fact.kind, entities, fact.verifier, {"expected": expected}, (call,))


def _population_in(random: Random, split: Split) -> Draft:
    city = random.choice(members(large_cities(), split))
    country = country_of(city)
    call = Call("city_facts", {"city": city, "country": country})
    parameters = {"expected": solve(call)["population"]}
    entities = {"name": city, "country": country}
    return Draft("population_in", entities, "numeric", parameters, (call,))


def _is_askable(expected: object, verifier: str) -> bool:
    if verifier == "set":
        return (
            isinstance(expected, list)
            and 0 < len(expected) <= LISTED_MAX
            and all(each.isascii() and " and " not in each for each in expected)
        )
    return expected not in (None, "") and str(expected).isascii()


@cache
def large_countries() -> tuple[str, ...]:
    """Countries of more than a few people, with a capital in plain letters; in order."""
    listed = countries().values()
    return tuple(
        sorted(
            each["name"]
            for each in listed
            if each["population"] >= COUNTRY_PEOPLE_MIN and each["capital"].isascii()
        )
    )


def _countries_with_digits() -> Sequence[str]:
    known = {each["name"]: each["phone"] for each in countries().values()}
    return [name for name in large_countries() if known[name].isdigit()]


@cache
def large_cities() -> tuple[str, ...]:
    """Large cities whose names no other large city has, and no country."""
    listed = [
        each["name"]
        for each in geonames().get_cities().values()
        if each["population"] >= CITY_PEOPLE_MIN and each["name"].isascii()
    ]
    lands = {each["name"] for each in countries().values()}
    return tuple(sorted(name for name in set(listed) - lands if listed.count(name) == 1))


@cache
def country_of(city: str) -> str:
    [code] = {
        each["countrycode"]
        for each in geonames().get_cities().values()
        if each["name"] == city and each["population"] >= CITY_PEOPLE_MIN
    }
    return country_name(code)


@cache
def elements() -> tuple[str, ...]:
    return tuple(periodictable.elements[number].name for number in range(1, ELEMENTS + 1))


def _dense_elements() -> Sequence[str]:
    return [name for name in elements() if getattr(periodictable, name).density]


def _symbols() -> Sequence[str]:
    return [periodictable.elements[number].symbol for number in range(1, ELEMENTS + 1)]


def _numbers() -> Sequence[str]:
    return [str(number) for number in range(1, ELEMENTS + 1)]


def compounds() -> Sequence[str]:
    return [metal + rest for metals, rests in SALTS for metal in metals for rest in rests]


@cache
def large_airports() -> tuple[str, ...]:
    """Airports of places whose names are letters alone, so that they are written in one way."""
    listed = airports().items()
    return tuple(
        sorted(
            code
            for code, each in listed
            if each["city"].isascii() and each["city"].isalpha() and "International" in each["name"]
        )
    )


@cache
def _currency_codes() -> tuple[str, ...]:
    """Currencies in use whose names have plain letters."""
    used = {each["currencycode"] for each in countries().values()} - {""}
    return tuple(sorted(code for code in used if currency_name(code).isascii()))


def _currencies() -> Sequence[str]:
    return [currency_name(code) for code in _currency_codes()]


@cache
def currency_name(code: str) -> str:
    return str(solve(Call("currency_facts", {"currency": code}))["name"])


_COUNTRY, _CITY, _CODE, _ELEMENT = ("country",), ("city",), ("code",), ("element",)
_CURRENCY = ("currency",)
_AIRPORTS, _CITIES = ("from_code", "to_code"), ("from_city", "to_city")
FACTS = (
    Fact("capital", "country_facts", _COUNTRY, "capital", "contains", large_countries),
    Fact("population", "country_facts", _COUNTRY, "population", "numeric", large_countries),
    Fact("area", "country_facts", _COUNTRY, "area_km2", "numeric", large_countries),
    Fact("currency_code", "country_facts", _COUNTRY, "currency", "contains", large_countries),
    Fact("neighbours", "country_facts", _COUNTRY, "neighbours", "set", large_countries),
    Fact("continent", "country_facts", _COUNTRY, "continent", "contains", large_countries),
    Fact(
        "calling_code", "country_facts", _COUNTRY, "calling_code", "numeric", _countries_with_digits
    ),
    Fact(
        "top_level_domain",
        "country_facts",
        _COUNTRY,
        "top_level_domain",
        "contains",
        large_countries,
    ),
    Fact("population", "city_facts", _CITY, "population", "numeric", large_cities),
    Fact("city_country", "city_facts", _CITY, "country", "contains", large_cities),
    Fact("city_timezone", "city_facts", _CITY, "timezone", "contains", large_cities),
    Fact("atomic_number", "element_facts", _ELEMENT, "atomic_number", "numeric", elements),
    Fact("element_name", "element_facts", _ELEMENT, "name", "contains", _numbers),
    Fact("symbol", "element_facts", _ELEMENT, "symbol", "contains", elements),
    Fact("symbol_element", "element_facts", _ELEMENT, "name", "contains", _symbols),
    Fact("atomic_mass", "element_facts", _ELEMENT, "atomic_mass_u", "numeric", elements),
    Fact("density", "element_facts", _ELEMENT, "density_g_per_cm3", "numeric", _dense_elements),
    Fact("molar_mass", "molar_mass", ("formula",), "molar_mass_g_per_mol", "numeric", compounds),
    Fact("airport_city", "airport_facts", _CODE, "city", "contains", large_airports),
    Fact("airport_country", "airport_facts", _CODE, "country", "contains", large_airports),
    Fact("airport_name", "airport_facts", _CODE, "name", "contains", large_airports),
    Fact(
        "airport_distance", "airport_distance", _AIRPORTS, "distance_km", "numeric", large_airports
    ),
    Fact("city_distance", "city_distance", _CITIES, "distance_km", "numeric", large_cities),
    Fact("currency_of_code", "currency_facts", _CURRENCY, "name", "contains", _currency_codes),
    Fact("code_of_currency", "currency_facts", _CURRENCY, "code", "contains", _currencies),
    Fact(
        "currency_decimals", "currency_facts", _CURRENCY, "decimal_places", "numeric", _currencies
    ),
    Fact("currency_users", "currency_facts", _CURRENCY, "countries", "set", _currencies),
)
