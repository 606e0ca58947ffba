"""Rows of an export to a CSV or Parquet file, written aside and renamed when whole."""

import csv
import shutil
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

from podium.ledger.v1 import audit_pb2
from podium.ledger.v1 import audit_service_pb2 as pb
from podium_kit.client.errors import UserError
from podium_kit.client.gateway import Gateway

Column = audit_pb2.ExportColumn
Row = Sequence[str]
# Decimals by their digits in all and after the point. A CSV has no such limit.
FORMULA_BEGINNINGS = frozenset("=+-@'\uff1d\uff0b\uff0d\uff20|%")
CONTROLS = frozenset("\t\r\n\0")
MONEY, PRICE = "DECIMAL(28, 12)", "DECIMAL(38, 18)"
DIGITS = {MONEY: (28, 12), PRICE: (38, 18)}
PARQUET_TYPES = {
    audit_pb2.EXPORT_COLUMN_KIND_TEXT: "VARCHAR",
    audit_pb2.EXPORT_COLUMN_KIND_COUNT: "BIGINT",
    audit_pb2.EXPORT_COLUMN_KIND_TIME: "TIMESTAMPTZ",
    audit_pb2.EXPORT_COLUMN_KIND_MONEY: MONEY,
    audit_pb2.EXPORT_COLUMN_KIND_PRICE: PRICE,
    audit_pb2.EXPORT_COLUMN_KIND_QUANTITY: PRICE,
}


class NotRepresentable(UserError):
    """A number has more digits than Parquet's decimals."""

    def __init__(self, number: str, type_: str) -> None:
        super().__init__(f"{number} does not fit into Parquet's {type_}", "export it as CSV")


def write_table(path: Path, columns: Sequence[Column], rows: Iterable[Row]) -> int:
    """Writes the file, Parquet by its suffix and else CSV; how many rows it has.

    Raises NotRepresentable. Until all is written the file has another name.
    """
    unfinished = path.with_name(f".{path.name}.new")
    if path.suffix == ".parquet":
        count = _write_parquet(unfinished, columns, rows)
    else:
        count = _write_csv(unfinished, columns, (_plain(columns, row) for row in rows))
    unfinished.rename(path)
    return count


def _plain(columns: Sequence[Column], row: Row) -> Row:
    """The cells, with an apostrophe before texts that a spreadsheet would run as a formula.

    One that begins with an apostrophe gets another: leaving the first out gives every text back.
    """
    return [
        f"'{cell}" if column.kind == audit_pb2.EXPORT_COLUMN_KIND_TEXT and _is_risky(cell) else cell
        for column, cell in zip(columns, row, strict=True)
    ]


def _is_risky(cell: str) -> bool:
    return bool(cell) and (cell[0] in CONTROLS or cell.lstrip()[:1] in FORMULA_BEGINNINGS)


def _write_csv(path: Path, columns: Sequence[Column], rows: Iterable[Row]) -> int:
    count = 0
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(column.name for column in columns)
        for count, row in enumerate(rows, start=1):  # noqa: B007  the last one is the answer
            writer.writerow(row)
    return count


def _write_parquet(path: Path, columns: Sequence[Column], rows: Iterable[Row]) -> int:
    # Loaded for this file alone.
    import duckdb  # noqa: PLC0415

    text = path.with_name(f"{path.name}.csv")
    types = [PARQUET_TYPES[column.kind] for column in columns]
    cells = [
        f'CAST("{column.name}" AS {type_}) AS "{column.name}"'
        for column, type_ in zip(columns, types, strict=True)
    ]
    read = {column.name: "VARCHAR" for column in columns}
    try:
        count = _write_csv(text, columns, _representable(types, rows))
        with duckdb.connect() as database:
            database.execute(
                f"COPY (SELECT {', '.join(cells)} FROM read_csv($1, columns={read}, header=true,"  # noqa: S608  the contract's names
                " auto_detect=false, parallel=false, delim=',', quote='\"', escape='\"'))"
                " TO $2 (FORMAT parquet, COMPRESSION zstd)",
                [str(text), str(path)],
            )
    finally:
        text.unlink(missing_ok=True)
    return count


def _representable(types: Sequence[str], rows: Iterable[Row]) -> Iterator[Row]:
    """The rows. Raises NotRepresentable: a cast would round, or end in the words of the reader."""
    for row in rows:
        for type_, text in zip(types, row, strict=True):
            if text and type_ in DIGITS:
                digits, after_point = DIGITS[type_]
                number = Decimal(text).normalize()
                exponent = number.as_tuple().exponent
                too_fine = isinstance(exponent, int) and -exponent > after_point
                if too_fine or number.adjusted() >= digits - after_point:
                    raise NotRepresentable(text, type_)
        yield row


class ExportPages:
    def __init__(
        self, file: Path, request: pb.ExportChargesRequest, address: tuple[str, str]
    ) -> None:
        """`address` is the gateway's URL and key: pages of others are not reused."""
        export_format = audit_pb2.ExportFormat.Name(request.format)
        whose = sha256("\n".join(address).encode()).hexdigest()[:12]
        parts = (export_format, request.month or "all", request.tenant, whose)
        asked = "-".join(filter(None, parts))
        self._folder = file.with_name(f".{file.name}.{asked}.pages")
        self._query = {
            "format": export_format,
            "month": request.month,
            "tenant": request.tenant,
        }

    async def fetch(self, gateway: Gateway) -> AsyncIterator[pb.ExportChargesResponse]:
        """Fetches what is missing; every response as it arrives. Raises Rejected, Unreachable.

        Pages that an earlier run fetched and did not write may be old: what came since is missing.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        files = self._files()
        number, last = len(files), _read(files[-1]) if files else None
        while True:
            after = last.sequence if last else None
            replies = gateway.stream(
                "/v1/audit/export", pb.ExportChargesResponse, **self._query, after_sequence=after
            )
            async for last in replies:
                self._keep(number, last)
                number += 1
                yield last
            if last and last.sequence >= last.head_sequence:
                return

    def read(self) -> Iterator[pb.ExportChargesResponse]:
        return map(_read, self._files())

    def forget(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.page"))

    def _keep(self, number: int, page: pb.ExportChargesResponse) -> None:
        unfinished = self._folder / f"{number:08d}.new"
        unfinished.write_bytes(page.SerializeToString())
        unfinished.rename(unfinished.with_suffix(".page"))


def _read(file: Path) -> pb.ExportChargesResponse:
    return pb.ExportChargesResponse.FromString(file.read_bytes())
