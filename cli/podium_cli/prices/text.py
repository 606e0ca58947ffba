"""A price in words: "$0.2 per million input fresh"."""

from podium.common.v1 import usage_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb2
from podium_cli.formats import SYMBOLS
from podium_kit.wire import enum_word

UNITS = {"": "", "1": "", "1000": "thousand ", "1000000": "million "}


def format_price(spec: prices_pb2.PriceSpec) -> str:
    """All components; those of the same price and conditions are grouped."""
    units: dict[tuple[str, str], list[str]] = {}
    for each in spec.components:
        unit = enum_word(usage_pb2.UsageDimension.Name(each.dimension), "USAGE_DIMENSION_")
        amount = _trimmed(each.unit_price)
        per = UNITS.get(each.per, f"{each.per} ")
        units.setdefault((f"{amount} per {per}", format_conditions(each)), []).append(unit)
    symbol = SYMBOLS.get(spec.currency_code, f"{spec.currency_code} ")
    return "; ".join(
        f"{symbol}{price}{', '.join(names)}{f' ({when})' if when else ''}"
        for (price, when), names in units.items()
    )


def format_sku(spec: prices_pb2.PriceSpec) -> str:
    """The SKU and, where the price is not the default one, its class, region and tenant."""
    marks = [spec.service_class, spec.region, spec.tenant]
    qualifiers = ", ".join(mark for mark in marks if mark)
    return f"{spec.sku} ({qualifiers})" if qualifiers else spec.sku


def format_conditions(component: prices_pb2.PriceComponent) -> str:
    """ "prompts from 200000 tokens, Mon Tue 08:30-16:30 UTC"; "" when it always holds."""
    parts = [_band(component.band)]
    if component.HasField("hours"):
        parts.append(_hours(component.hours))
    return ", ".join(part for part in parts if part)


def _band(band: prices_pb2.TokenBand) -> str:
    if band.from_tokens and band.until_tokens:
        return f"prompts of {band.from_tokens} to {band.until_tokens - 1} tokens"
    if band.from_tokens:
        return f"prompts from {band.from_tokens} tokens"
    return f"prompts below {band.until_tokens} tokens" if band.until_tokens else ""


def _hours(hours: prices_pb2.WeeklyHours) -> str:
    days = [prices_pb2.Weekday.Name(day).removeprefix("WEEKDAY_")[:3] for day in hours.weekdays]
    named = " ".join(day.capitalize() for day in days)
    return f"{named} {hours.start}-{hours.end} UTC".strip()


def _trimmed(amount: str) -> str:
    return amount.rstrip("0").rstrip(".") if "." in amount else amount
