"""Rows of an export to a CSV or Parquet file, written aside and renamed when whole."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from podium.ledger.v1 import audit_pb2
from podium_kit.client.errors import UserError

Column = audit_pb2.ExportColumn
Row = Sequence[str]
ROWS_PER_GROUP = 50_000


class NotRepresentable(UserError):
    """A number has more digits than Parquet's decimals."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"a number does not fit into Parquet: {error}", "export it as CSV")


def write_table(path: Path, columns: Sequence[Column], rows: Iterable[Row]) -> int:
    """Writes the file, Parquet by its suffix and else CSV; how many rows it has.

    Raises NotRepresentable. Until all is written the file has another name.
    """
    unfinished = path.with_name(f".{path.name}.new")
    write = _write_parquet if path.suffix == ".parquet" else _write_csv
    count = write(unfinished, columns, rows)
    unfinished.rename(path)
    return count


def _write_csv(path: Path, columns: Sequence[Column], rows: Iterable[Row]) -> int:
    count = 0
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(column.name for column in columns)
        for count, row in enumerate(rows, start=1):  # noqa: B007  the last one is the answer
            writer.writerow(row)
    return count


def _write_parquet(path: Path, columns: Sequence[Column], rows: Iterable[Row]) -> int:
    # Half a second to import, and only this file needs it.
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    # Decimals by their digits in all and after the point. A CSV has no such limit.
    types: dict[int, tuple[Any, Callable[[str], Any]]] = {
        audit_pb2.EXPORT_COLUMN_KIND_TEXT: (pa.string(), str),
        audit_pb2.EXPORT_COLUMN_KIND_COUNT: (pa.int64(), int),
        audit_pb2.EXPORT_COLUMN_KIND_TIME: (pa.timestamp("us", tz="UTC"), datetime.fromisoformat),
        audit_pb2.EXPORT_COLUMN_KIND_MONEY: (pa.decimal128(28, 12), Decimal),
        audit_pb2.EXPORT_COLUMN_KIND_PRICE: (pa.decimal128(38, 18), Decimal),
        audit_pb2.EXPORT_COLUMN_KIND_QUANTITY: (pa.decimal128(38, 18), Decimal),
    }
    kinds = [types[column.kind] for column in columns]
    fields = zip(columns, kinds, strict=True)
    schema = pa.schema([(column.name, kind) for column, (kind, _) in fields])
    count = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in _groups(rows):
            arrays = [
                [parse(text) if text else None for text in texts]
                for (_, parse), texts in zip(kinds, zip(*group, strict=True), strict=True)
            ]
            try:
                table = pa.table(arrays, schema=schema)
            except pa.ArrowInvalid as error:
                raise NotRepresentable(error) from error
            writer.write_table(table)
            count += len(group)
    return count


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while group := list(islice(remaining, ROWS_PER_GROUP)):
        yield group
