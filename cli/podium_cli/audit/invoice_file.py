import csv
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any

from podium.common.v1 import money_pb2
from podium.ledger.v1 import audit_pb2
from podium_cli.prices.lists import require_no_surplus
from podium_kit.client.errors import UnreadableFile
from podium_kit.money import InvalidMoney, Money
from podium_kit.wire import timestamp_to_proto
from podium_operations.documents import InvalidDocument

# The names a column may have; the first is the one to use.
COLUMNS = {
    "request_id": ("request_id", "provider_request_id", "id"),
    "sku": ("sku", "model"),
    "time": ("time", "occur_time", "timestamp", "date"),
    "amount": ("amount", "cost", "total"),
    "currency": ("currency", "currency_code"),
}
# No amount has more; written out, a few characters can stand for a gigabyte.
DIGITS_MAX = 40
# A line needs a request_id or a sku, too.
REQUIRED = ("time", "amount")
FIX = f"columns are {', '.join(COLUMNS)}; nothing was changed"


def read_invoice(path: Path, provider: str) -> tuple[str, list[audit_pb2.InvoiceLine]]:
    """The id that the content makes, and the lines. Raises InvalidDocument."""
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(path, error, "give a CSV or JSON file in UTF-8") from error
    rows = _json_rows(path, text) if path.suffix == ".json" else _csv_rows(path, text)
    lines = [_line(path, number, row, provider) for number, row in enumerate(rows, start=1)]
    if not lines:
        raise InvalidDocument(path, "holds no lines", FIX)
    return sha256(content).hexdigest()[:32], lines


def _csv_rows(path: Path, text: str) -> Iterator[Mapping[str, Any]]:
    # Else a quote that is never closed would hide every line after it.
    reader = csv.DictReader(StringIO(text, newline=""), strict=True)
    try:
        found = reader.fieldnames or []
        for name in REQUIRED:
            if found and not set(COLUMNS[name]) & set(found):
                raise InvalidDocument(path, f"has no column {name}, only {', '.join(found)}", FIX)
        yield from reader
    except csv.Error as error:
        raise InvalidDocument(path, f"line {reader.reader.line_num}: {error}", FIX) from error


def _json_rows(path: Path, text: str) -> list[Mapping[str, Any]]:
    try:
        # As written: the decimals of an amount say how the provider rounds.
        values = json.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise InvalidDocument(path, f"is not JSON: {error}", FIX) from error
    rows = values.get("lines") if isinstance(values, dict) else values
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidDocument(path, 'is no list of lines, nor an object with "lines"', FIX)
    return rows


def _line(path: Path, number: int, row: Mapping[str, Any], provider: str) -> audit_pb2.InvoiceLine:
    place = f"line {number}"
    require_no_surplus(path, place, row)
    values = {name: _value(row, names) for name, names in COLUMNS.items()}
    sku = values["sku"]
    if sku and not sku.startswith(f"{provider}/"):
        sku = f"{provider}/{sku}"
    if not sku and not values["request_id"]:
        raise InvalidDocument(path, f"{place} has neither a request_id nor a sku", FIX)
    return audit_pb2.InvoiceLine(
        provider_request_id=values["request_id"],
        sku=sku,
        occur_time=timestamp_to_proto(_time(path, place, values["time"])),
        amount=_amount(path, place, values["amount"], values["currency"]),
    )


def _value(row: Mapping[str, Any], names: tuple[str, ...]) -> str:
    found = next((row[name] for name in names if row.get(name) not in (None, "")), "")
    if isinstance(found, Decimal) and abs(found.adjusted()) < DIGITS_MAX:
        return f"{found:f}"
    return str(found).strip()


def _time(path: Path, place: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        problem = f"{place} has the time {text!r}; write it like 2026-10-31T09:30:00Z"
        raise InvalidDocument(path, problem, FIX) from error


def _amount(path: Path, place: str, amount: str, currency: str) -> money_pb2.Money:
    try:
        Money.parse(amount, currency or "USD")
    except InvalidMoney as error:
        raise InvalidDocument(path, f"{place}: {error.message}", FIX) from error
    return money_pb2.Money(amount=amount, currency_code=currency or "USD")
