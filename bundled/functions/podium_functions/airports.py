"""Airports by IATA code, by airportsdata."""

import re
from functools import cache
from typing import Annotated, Any

import airportsdata
from pydantic import Field

from podium_functions.countries import country_code, country_name, name_key
from podium_functions.distances import distance_km
from podium_functions.errors import FunctionFailed, not_found

FEET_IN_METRES = 0.3048
NAMED_MAX = 6
# The large airports of cities in whose own names only a small one lies.
BESIDE = {
    "buenos aires": ["EZE"],
    "cincinnati": ["CVG"],
    "logan": ["BOS"],
    "toronto": ["YYZ"],
    "vancouver": ["YVR"],
}
AirportName = Annotated[
    str,
    Field(
        description="IATA code as written, for example JFK; or the airport's name.",
        min_length=3,
        max_length=80,
    ),
]


@cache
def airports() -> dict[str, dict[str, Any]]:
    return airportsdata.load("IATA")  # type: ignore[return-value]


def airport_facts(code: AirportName) -> dict[str, Any]:
    airport = _airport(code)
    return {
        "city": airport["city"],
        "country": country_name(airport["country"]),
        "name": airport["name"],
        "iata": airport["iata"],
        "icao": airport["icao"],
        "latitude": airport["lat"],
        "longitude": airport["lon"],
        "elevation_m": round(airport["elevation"] * FEET_IN_METRES, 1),
        "timezone": airport["tz"],
    }


def airport_distance(from_code: AirportName, to_code: AirportName) -> dict[str, Any]:
    start, end = _airport(from_code), _airport(to_code)
    return {
        "distance_km": distance_km(start, end, "lat", "lon"),
        "from": start["name"],
        "to": end["name"],
    }


def _airport(written: str) -> dict[str, Any]:
    name, _, place = written.partition(",")
    key = re.sub(r"\s*\b(?:iata|code|airport)\b\s*", " ", name_key(name)).strip()
    code = key.removesuffix(" international").upper()
    if code in airports():
        return airports()[code]
    fitting = _of_country(_fitting(key), place) if key else []
    named = [found for found in re.findall(r"\b[A-Z]{3}\b", written) if found in airports()]
    if not fitting and len(set(named)) == 1 and not written.isupper():
        return airports()[named[0]]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise not_found(f'no airport is called "{written}"; write its IATA code, for example LHR')
    named = [f"{each['iata']} ({each['name']})" for each in fitting[:NAMED_MAX]]
    more = " and others" if len(fitting) > NAMED_MAX else ""
    raise not_found(f'"{written}" may be {", ".join(named)}{more}; write the code of one of them')


def _fitting(key: str) -> list[dict[str, Any]]:
    """Airports with this ICAO code or city, or else with all these words in their names."""
    words = set(key.split())
    exact = [airport for airport, names, _ in _keys() if key in names]
    also = BESIDE.get(key, []) if len(exact) == 1 else []
    return exact + [airports()[code] for code in also] or [
        airport for airport, _, name in _keys() if words <= name
    ]


@cache
def _keys() -> list[tuple[dict[str, Any], tuple[str, str], set[str]]]:
    return [
        (
            each,
            (each["icao"].casefold(), name_key(each["city"])),
            set(name_key(each["name"]).split()),
        )
        for each in airports().values()
    ]


def _of_country(found: list[dict[str, Any]], country: str) -> list[dict[str, Any]]:
    """All of them when the country is none, as in "London, Ontario"."""
    try:
        code = country_code(country)
    except FunctionFailed:
        return found
    return [each for each in found if each["country"] == code]
