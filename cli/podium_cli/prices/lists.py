"""Price lists: YAML or JSON in the form of the contract, or CSV as a spreadsheet writes it.

A line of CSV is one component. Lines that agree on SKU, class, region, tenant and
validity are one price. Only sku, dimension and unit_price are required; an empty cell is
unset. Columns:

    sku,dimension,unit_price,per,currency,from_tokens,until_tokens,weekdays,start,end,
    service_class,region,valid_from,valid_until,tenant,source,corrects_price_id
"""

import csv
from pathlib import Path
from typing import Any

from podium.ledger.v1 import price_book_service_pb2 as pb
from podium_cli.documents.csv_rows import require_no_surplus
from podium_cli.documents.documents import InvalidDocument, message_of, read_messages
from podium_cli.prices.cells import REQUIRED, check_cells

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
