"""Distances on the WGS84 ellipsoid, by geographiclib."""

from typing import Any

from geographiclib.geodesic import Geodesic  # type: ignore[import-untyped]

from podium_functions.cities import CityName, find_city


def distance_km(from_place: dict[str, Any], to_place: dict[str, Any], lat: str, lon: str) -> float:
    """`lat` and `lon` are the records' keys of coordinates."""
    inverse = Geodesic.WGS84.Inverse(
        from_place[lat], from_place[lon], to_place[lat], to_place[lon], Geodesic.DISTANCE
    )
    return round(float(inverse["s12"]) / 1000, 1)


def city_distance(from_city: CityName, to_city: CityName) -> dict[str, Any]:
    start, end = find_city(from_city), find_city(to_city)
    return {
        "distance_km": distance_km(start, end, "latitude", "longitude"),
        "from": f"{start['name']}, {start['countrycode']}",
        "to": f"{end['name']}, {end['countrycode']}",
    }
