"""One fact about a country, city, airport, element or compound, as a bundled tool states it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

import periodictable

from podium_training.tasks.draft import Draft, Phrasings, solve
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

CAPITAL = Phrasings(
    (
        "What is the capital of {name}?",
        "Name the capital city of {name}.",
        "Which city is the capital of {name}?",
        "Tell me the capital of {name}.",
        "{name}: what is its capital?",
        "Look up the capital of {name}.",
        "The embassy is in the capital of {name}. Which city is that?",
        "Which is the capital city of {name}?",
    ),
    ("From which city is {name} governed, by its capital?",),
)
PEOPLE = Phrasings(
    (
        "How many people live in {name}?",
        "What is the population of {name}?",
        "How large is the population of {name}?",
        "Tell me how many people {name} has.",
        "{name}: how many people live there?",
        "Look up the population of {name}.",
        "What number of people lives in {name}?",
        "How populous is {name}, in people?",
    ),
    ("Give the number of inhabitants of {name}.",),
)
AREA = Phrasings(
    (
        "How many square kilometres does {name} cover?",
        "Over how many square kilometres does {name} spread?",
        "What is the area of {name} in square kilometres?",
        "Tell me the area of {name} in square kilometres.",
        "{name}: how many square kilometres is it large?",
        "Look up how many square kilometres {name} has.",
        "How large is {name}, in square kilometres?",
        "What is the size of {name} in square kilometres?",
    ),
    ("How big is {name}, in km2?",),
)
MONEY = Phrasings(
    (
        "Which currency code does {name} use?",
        "By which currency code is the money of {name} known?",
        "What is the code of the currency of {name}?",
        "Tell me the currency code of {name}.",
        "{name}: which code does its currency have?",
        "Look up the code of the currency used in {name}.",
        "I travel to {name}. What is the code of its currency?",
        "Which three letters stand for the currency of {name}?",
    ),
    ("With money of which currency code does one pay in {name}?",),
)
ATOMIC_NUMBER = Phrasings(
    (
        "What is the atomic number of {name}?",
        "Which atomic number does the element {name} have?",
        "Tell me the atomic number of {name}.",
        "{name}: what is its atomic number?",
        "Look up the atomic number of the element {name}.",
        "How many protons does an atom of {name} have?",
    ),
    ("At which number does {name} stand in the periodic table?",),
)
NAME = Phrasings(
    (
        "Which element has the atomic number {name}?",
        "What is the chemical element of atomic number {name} called?",
        "Name the element whose atomic number is {name}.",
        "Tell me which element has the atomic number {name}.",
        "Atomic number {name}: which element is it?",
        "Look up the element with atomic number {name}.",
        "Which element's atoms have {name} protons?",
    ),
    ("What stands at place {name} of the periodic table?",),
)
SYMBOL = Phrasings(
    (
        "What is the symbol of the element {name}?",
        "Which chemical symbol does {name} have?",
        "Tell me the chemical symbol of {name}.",
        "{name}: which symbol does the element have?",
        "Look up the symbol for the element {name}.",
        "With which symbol is {name} written in a formula?",
    ),
    ("How do chemists abbreviate the element {name}?",),
)
MOLAR_MASS = Phrasings(
    (
        "What is the molar mass of {name} in g/mol?",
        "Give the molar mass of {name} in g/mol.",
        "How many grams does a mole of {name} weigh?",
        "Tell me the molar mass of {name} in g/mol.",
        "{name}: what is its molar mass in g/mol?",
        "Look up how many grams one mole of {name} has.",
        "Calculate the molar mass of {name}, in grams per mole.",
        "How heavy is one mole of {name}, in grams?",
    ),
    ("A mole of {name} lies on the scales. How many grams do they show?",),
)
SERVED = Phrasings(
    (
        "Which city does the airport with the IATA code {name} serve?",
        "In which city is the airport {name}?",
        "To which city belongs the airport with the code {name}?",
        "Tell me which city the airport {name} serves.",
        "Airport {name}: which city is it in?",
        "Look up the city of the airport with the code {name}.",
        "I fly to {name}. In which city do I land?",
        "The IATA code {name} means the airport of which city?",
    ),
    ("My ticket says {name}. Which city's airport is that?",),
)
APART = Phrasings(
    (
        "How many kilometres is it from the airport {name} to the airport {other}?",
        "How far apart are the airports {name} and {other}, in kilometres?",
        "Tell me the distance in kilometres between the airports {name} and {other}.",
        "Airport {name} to airport {other}: how many kilometres?",
        "Look up the kilometres from the airport {name} to {other}.",
        "How many kilometres lie between the airports {name} and {other}?",
        "How long is the flight from airport {name} to airport {other}, in kilometres?",
    ),
    ("A plane flies straight from {name} to {other}. How many kilometres is that?",),
)
CITIES_APART = Phrasings(
    (
        "How many kilometres is it from {name} to {other}?",
        "What is the distance between {name} and {other} in kilometres?",
        "Tell me how far {name} is from {other}, in kilometres.",
        "{name} to {other}: how many kilometres?",
        "Look up the distance from the city of {name} to {other} in kilometres.",
        "How many kilometres lie between the cities {name} and {other}?",
        "How far is {other} from {name}, in kilometres?",
    ),
    ("How long is the straight line from {name} to {other}, in km?",),
)


@dataclass(frozen=True)
class Kind:
    """Questions a tool answers with one of its fields."""

    phrasings: Phrasings
    tool: str
    parameters: tuple[str, ...]
    """Arguments of the tool: one is asked about, or two."""
    field: str
    verifier: str
    names: Callable[[], Sequence[str]]


def draw(random: Random, split: Split) -> Draft:
    kind = random.choice(_kinds())
    names = random.sample(members(kind.names(), split), len(kind.parameters))
    call = Call(kind.tool, dict(zip(kind.parameters, names, strict=True)))
    parameters = {"expected": solve(call)[kind.field]}
    entities = dict(zip(("name", "other"), names, strict=False))
    return Draft(kind.phrasings, entities, kind.verifier, parameters, (call,))


@cache
def _kinds() -> tuple[Kind, ...]:
    country, city, airport = ("country",), ("city",), ("code",)
    return (
        Kind(CAPITAL, "country_facts", country, "capital", "contains", large_countries),
        Kind(PEOPLE, "country_facts", country, "population", "numeric", large_countries),
        Kind(AREA, "country_facts", country, "area_km2", "numeric", large_countries),
        Kind(MONEY, "country_facts", country, "currency", "contains", large_countries),
        Kind(PEOPLE, "city_facts", city, "population", "numeric", _cities),
        Kind(ATOMIC_NUMBER, "element_facts", ("element",), "atomic_number", "numeric", _elements),
        Kind(NAME, "element_facts", ("element",), "name", "contains", _numbers),
        Kind(SYMBOL, "element_facts", ("element",), "symbol", "contains", _elements),
        Kind(MOLAR_MASS, "molar_mass", ("formula",), "molar_mass_g_per_mol", "numeric", _compounds),
        Kind(SERVED, "airport_facts", airport, "city", "contains", large_airports),
        Kind(
            APART,
            "airport_distance",
            ("from_code", "to_code"),
            "distance_km",
            "numeric",
            large_airports,
        ),
        Kind(
            CITIES_APART,
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
