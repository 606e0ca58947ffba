"""Airports by IATA code, by airportsdata."""

from functools import cache
from typing import Annotated, Any

import airportsdata
from pydantic import Field

from tool_adapters.functions.countries import country_name
from tool_adapters.functions.distances import distance_km
from tool_adapters.functions.errors import not_found

FEET_IN_METRES = 0.3048
IataCode = Annotated[
    str,
    Field(description="Three-letter IATA code, for example JFK.", min_length=3, max_length=3),
]


@cache
def airports() -> dict[str, dict[str, Any]]:
    """Every airport with an IATA code, by code."""
    return airportsdata.load("IATA")  # type: ignore[return-value]


def airport_facts(code: IataCode) -> dict[str, Any]:
    """Name, city, country, coordinates, elevation and time zone of an airport."""
    airport = _airport(code)
    return {
        "iata": airport["iata"],
        "icao": airport["icao"],
        "name": airport["name"],
        "city": airport["city"],
        "country": country_name(airport["country"]),
        "latitude": airport["lat"],
        "longitude": airport["lon"],
        "elevation_m": round(airport["elevation"] * FEET_IN_METRES, 1),
        "timezone": airport["tz"],
    }


def airport_distance(from_code: IataCode, to_code: IataCode) -> dict[str, Any]:
    """Shortest distance between two airports in kilometres."""
    start, end = _airport(from_code), _airport(to_code)
    return {
        "from": start["name"],
        "to": end["name"],
        "distance_km": distance_km(start, end, "lat", "lon"),
    }


def _airport(code: str) -> dict[str, Any]:
    airport = airports().get(code.upper())
    if airport is None:
        raise not_found(f"no airport has the IATA code {code!r}; codes look like LHR or JFK")
    return airport
