"""Rows to a CSV or Parquet file: exact decimals, written aside and renamed when whole."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from podium_cli.auditing.export_rows import Field, Row
from podium_kit.client.errors import UserError

ROWS_PER_GROUP = 50_000
# Digits before and after the point. A CSV has no such limit.
PRECISION = {"money": (28, 12), "price": (38, 18), "quantity": (38, 18)}


class NotRepresentable(UserError):
    """A number has more digits than Parquet's decimals."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"a number does not fit into Parquet: {error}", "export it as CSV")


def write_table(path: Path, fields: Sequence[Field], rows: Iterable[Row]) -> int:
    """Writes the file, Parquet by its suffix and else CSV; how many rows it has.

    Raises NotRepresentable. Until all is written the file has another name.
    """
    unfinished = path.with_name(f".{path.name}.new")
    write = _write_parquet if path.suffix == ".parquet" else _write_csv
    count = write(unfinished, fields, rows)
    unfinished.rename(path)
    return count


def _write_csv(path: Path, fields: Sequence[Field], rows: Iterable[Row]) -> int:
    count = 0
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in fields)
        for count, row in enumerate(rows, start=1):  # noqa: B007  the last one is the answer
            writer.writerow(_text(row[field.name]) for field in fields)
    return count


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case Decimal():
            # With a point, so that no reader takes a column of whole amounts for integers.
            text = f"{value:f}"
            return text if "." in text else f"{text}.0"
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case _:
            return str(value)


def _write_parquet(path: Path, fields: Sequence[Field], rows: Iterable[Row]) -> int:
    # Half a second to import, and only this file needs it.
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    types = {
        "text": pa.string(),
        "count": pa.int64(),
        "time": pa.timestamp("us", tz="UTC"),
        **{kind: pa.decimal128(*digits) for kind, digits in PRECISION.items()},
    }
    schema = pa.schema([(field.name, types[field.kind]) for field in fields])
    count = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in _groups(rows):
            try:
                table = pa.Table.from_pylist(group, schema=schema)
            except pa.ArrowInvalid as error:
                raise NotRepresentable(error) from error
            writer.write_table(table)
            count += len(group)
    return count


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while group := list(islice(remaining, ROWS_PER_GROUP)):
        yield group
