"""A price in words: "$0.2 per million input fresh"."""

from podium.common.v1 import usage_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb2
from podium_cli.formats import SYMBOLS, enum_word

UNITS = {"": "", "1": "", "1000": "thousand ", "1000000": "million "}


def format_price(spec: prices_pb2.PriceSpec) -> str:
    """All components; those of the same price are told together."""
    units: dict[str, list[str]] = {}
    for each in spec.components:
        unit = enum_word(usage_pb2.UsageDimension.Name(each.dimension), "USAGE_DIMENSION_")
        amount = _trimmed(each.unit_price)
        per = UNITS.get(each.per, f"{each.per} ")
        units.setdefault(f"{amount} per {per}", []).append(unit)
    symbol = SYMBOLS.get(spec.currency_code, f"{spec.currency_code} ")
    return "; ".join(f"{symbol}{price}{', '.join(names)}" for price, names in units.items())


def _trimmed(amount: str) -> str:
    return amount.rstrip("0").rstrip(".") if "." in amount else amount
