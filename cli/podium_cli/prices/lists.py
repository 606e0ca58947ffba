import csv
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from podium.common.v1 import usage_pb2
from podium.ledger.v1 import price_book_service_pb2 as pb
from podium.ledger.v1 import price_book_service_pb2 as prices_pb2
from podium_cli.formats import SYMBOLS
from podium_kit.wire import enum_word, enum_words
from podium_operations.documents import InvalidDocument, message_of, read_messages


def require_no_surplus(path: Path, place: str, row: Mapping[Any, Any]) -> None:
    """Raises InvalidDocument for a row of more cells than there are columns.

    Those cells are under None, and what comes before them may be cut: 0,002 has become 0.
    """
    if None in row:
        raise InvalidDocument(
            path,
            f"{place} has more cells than there are columns",
            "write decimals with a point, and cells that hold a comma in quotes; nothing was "
            "changed",
        )


class InvalidCell(InvalidDocument):
    def __init__(self, path: Path, line: int, column: str, value: str, allowed: str) -> None:
        written = f"is {value!r}" if value else "is empty"
        super().__init__(
            path, f"line {line}: {column} {written}", f"write {allowed}; nothing was changed"
        )


@dataclass(frozen=True)
class CellKind:
    holds: Callable[[str], bool]
    allowed: str


def _matching(pattern: str, allowed: str) -> CellKind:
    return CellKind(lambda text: re.fullmatch(pattern, text) is not None, allowed)


def _word_of(words: list[str], several: bool = False) -> CellKind:
    def holds(text: str) -> bool:
        given = text.split() if several else [text]
        return {word.lower().replace("-", "_") for word in given} <= set(words)

    which = "some of" if several else "one of"
    return CellKind(holds, f"{which} {', '.join(words)}")


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


DECIMAL = _matching(r"\d+(\.\d+)?", "a decimal number of at least 0, like 1.25")
TOKENS = _matching(r"\d+", "a whole number of tokens, like 200000")
TIME_OF_DAY = _matching(r"([01]\d|2[0-3]):[0-5]\d|24:00", "a time of day in UTC, like 08:30")
MOMENT = CellKind(_is_moment, "a time with its zone, like 2026-10-31T00:00:00Z")
KINDS: Mapping[str, CellKind] = {
    "sku": _matching(r".+", "what is priced, like openai/gpt-5"),
    "dimension": _word_of(enum_words(usage_pb2.UsageDimension.DESCRIPTOR)),
    "unit_price": DECIMAL,
    "per": DECIMAL,
    "currency": _matching(r"[A-Z]{3}", "an ISO 4217 code, like USD"),
    "from_tokens": TOKENS,
    "until_tokens": TOKENS,
    "weekdays": _word_of(enum_words(pb.Weekday.DESCRIPTOR), several=True),
    "start": TIME_OF_DAY,
    "end": TIME_OF_DAY,
    "valid_from": MOMENT,
    "valid_until": MOMENT,
}
REQUIRED = ("sku", "dimension", "unit_price")


def check_cells(path: Path, line: int, row: Mapping[str, str]) -> None:
    for column, kind in KINDS.items():
        text = row.get(column) or ""
        if (text or column in REQUIRED) and not kind.holds(text):
            raise InvalidCell(path, line, column, text, kind.allowed)


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


PRICE_COLUMNS = {
    "sku": "sku",
    "currency": "currency_code",
    "service_class": "service_class",
    "region": "region",
    "valid_from": "start_time",
    "valid_until": "end_time",
    "tenant": "tenant",
    "source": "source",
    "corrects_price_id": "corrects_price_id",
}
COMPONENT_COLUMNS = ("dimension", "unit_price", "per")
BAND_COLUMNS = ("from_tokens", "until_tokens")
HOURS_COLUMNS = ("weekdays", "start", "end")
COLUMNS = {*PRICE_COLUMNS, *COMPONENT_COLUMNS, *BAND_COLUMNS, *HOURS_COLUMNS}
Row = dict[str, str]


def read_price_list(path: Path) -> list[pb.PriceSpec]:
    """The prices of a file, or of the files of a folder. Raises InvalidDocument."""
    if path.suffix.lower() == ".csv" and path.is_file():
        specs = _read_csv(path)
    else:
        specs = [spec for _, spec in read_messages(path, pb.PriceSpec)]
    if not specs:
        raise InvalidDocument(path, "holds no price", "give at least one; nothing was changed")
    return specs


def _read_csv(path: Path) -> list[pb.PriceSpec]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            _check_header(path, list(reader.fieldnames or []))
            rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        # The inner reader has counted the line that it could not read.
        raise InvalidDocument(path, f"line {reader.reader.line_num}: {error}") from error
    except UnicodeDecodeError as error:
        raise InvalidDocument(path, "is not UTF-8", "save it as CSV in UTF-8") from error
    except OSError as error:
        raise InvalidDocument(path, f"cannot be read: {error.strerror}") from error
    prices: dict[tuple[str, ...], dict[str, Any]] = {}
    for line, row in rows:
        require_no_surplus(path, f"line {line}", row)
        check_cells(path, line, row)
        key = tuple(row.get(name) or "" for name in PRICE_COLUMNS)
        price = prices.setdefault(key, _price(row))
        price["components"].append(_component(row))
    return [message_of(path, values, pb.PriceSpec) for values in prices.values()]


def _check_header(path: Path, names: list[str]) -> None:
    missing = [name for name in REQUIRED if name not in names]
    unknown = [name for name in names if name not in COLUMNS]
    if twice := [name for number, name in enumerate(names) if name in names[:number]]:
        fix = "name each column once; nothing was changed"
        raise InvalidDocument(path, f"has two columns {', '.join(twice)}", fix)
    if missing:
        raise InvalidDocument(path, f"has no column {', '.join(missing)}", "name it in line 1")
    if unknown:
        known = ", ".join(sorted(COLUMNS))
        raise InvalidDocument(path, f"has unknown columns {', '.join(unknown)}", f"use {known}")


def _price(row: Row) -> dict[str, Any]:
    values: dict[str, Any] = {"currency_code": "USD", "components": []}
    for column, field in PRICE_COLUMNS.items():
        if text := row.get(column):
            values[field] = text
    return values


def _component(row: Row) -> dict[str, Any]:
    values: dict[str, Any] = {name: row[name] for name in COMPONENT_COLUMNS if row.get(name)}
    band = {name: row[name] for name in BAND_COLUMNS if row.get(name)}
    hours: dict[str, Any] = {name: row[name] for name in HOURS_COLUMNS if row.get(name)}
    if "weekdays" in hours:
        hours["weekdays"] = hours["weekdays"].split()
    return values | ({"band": band} if band else {}) | ({"hours": hours} if hours else {})
