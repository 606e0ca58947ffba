from collections import Counter
from datetime import date
from functools import cache
from random import Random

import holidays

from podium_functions.countries import country_code
from podium_functions.errors import FunctionFailed
from podium_training.tasks.draft import Draft, solve
from podium_training.tasks.families.dates import a_day, ways, written
from podium_training.tasks.families.facts import large_countries
from podium_training.tasks.splits import members
from podium_training.tasks.task import Call, Split

FIRST_YEAR, LAST_YEAR = 2002, 2035
# More of them than that are too long a list for a small model to read.
LISTED_MAX = 16


def draw(random: Random, split: Split) -> Draft:
    country, year = a_country(random, split), a_year(random)
    kind = random.choice(("which", "is_one", "date_of", "count"))
    if kind in ("which", "is_one"):
        return _of_day(kind, country, year, random, split)
    calendar = Call("public_holidays", {"country": country, "year": year})
    entities = {"country": country, "year": year}
    if kind == "count":
        parameters = {"expected": solve(calendar)["count"]}
        return Draft(kind, entities, "numeric", parameters, (calendar,))
    day, name = random.choice(named(country, year))
    return Draft(kind, entities | {"holiday": name}, "contains", {"expected": day}, (calendar,))


def _of_day(kind: str, country: str, year: int, random: Random, split: Split) -> Draft:
    day, name = random.choice(named(country, year))
    text = random.choice(ways(date.fromisoformat(day)))
    if kind == "is_one" and random.random() < 0.5:
        text = written(random, a_day(random, split).replace(year=year, day=random.randint(1, 28)))
    call = Call("is_public_holiday", {"country": country, "day": text})
    expected = name if kind == "which" else "yes" if solve(call)["is_public_holiday"] else "no"
    entities = {"country": country, "day": text}
    return Draft(kind, entities, "contains", {"expected": expected}, (call,))


def a_year(random: Random) -> int:
    return random.randint(FIRST_YEAR, LAST_YEAR)


def a_country(random: Random, split: Split) -> str:
    return random.choice(members(countries_with_holidays(), split))


@cache
def countries_with_holidays() -> tuple[str, ...]:
    """Countries whose holidays have English names, and not too many of them."""
    known = holidays.list_supported_countries(include_aliases=False)
    found = [name for name in large_countries() if country_code(name) in known]
    years = (FIRST_YEAR, 2025, LAST_YEAR)
    return tuple(name for name in found if all(_readable(name, year) for year in years))


def _readable(country: str, year: int) -> bool:
    try:
        listed = solve(Call("public_holidays", {"country": country, "year": year}))["holidays"]
    except FunctionFailed:
        return False  # The year is not in the data.
    return 2 < len(listed) <= LISTED_MAX and len(named(country, year)) > 2


@cache
def named(country: str, year: int) -> list[tuple[str, str]]:
    """Dates and names of holidays that come once in the year, with plain names."""
    listed = solve(Call("public_holidays", {"country": country, "year": year}))["holidays"]
    often = Counter(each["name"] for each in listed)
    return [
        (each["date"], each["name"])
        for each in listed
        if often[each["name"]] == 1
        and each["name"].replace("'", "").replace(" ", "").isalpha()
        and each["name"].isascii()
    ]
