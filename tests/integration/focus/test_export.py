"""Exports keep every digit, and the FOCUS file passes the FinOps Foundation's validator."""

import csv
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyarrow import parquet

from integration.focus.validator import failures_of
from podium.common.v1 import money_pb2, usage_pb2
from podium.ledger.v1 import audit_pb2, hold_pb2
from podium_cli.auditing import export_rows, focus
from podium_cli.auditing.focus_versions import FOCUS_VERSIONS, VALIDATOR_NAMES
from podium_cli.auditing.table_files import write_table
from podium_kit.wire import timestamp_to_proto

OCTOBER, NOVEMBER = datetime(2026, 10, 31, 23, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)


def usd(amount: str) -> money_pb2.Money:
    return money_pb2.Money(amount=amount, currency_code="USD")


def make_line(
    quantity: str,
    unit_price: str,
    amount: str,
    dimension: usage_pb2.UsageDimension.ValueType = usage_pb2.USAGE_DIMENSION_INPUT_FRESH,
) -> audit_pb2.ChargeLine:
    return audit_pb2.ChargeLine(
        quantity=usage_pb2.Quantity(dimension=dimension, amount=quantity),
        unit_price=unit_price,
        per="1000000",
        priced_as=dimension,
        amount=usd(amount),
    )


def make_charge(sequence: int, *lines: audit_pb2.ChargeLine, **fields: object) -> audit_pb2.Charge:
    total = sum((Decimal(line.amount.amount) for line in lines), Decimal(0))
    entry = hold_pb2.Entry(
        sequence=sequence,
        kind=hold_pb2.ENTRY_KIND_CAPTURE,
        key=f"episode/{sequence}",
        subject=hold_pb2.Subject(tool="answer", model="gpt-5", user="ada"),
        sku="openai/gpt-5",
        price_version_id="v1",
        amount=usd(str(total)) if lines else None,
        occur_time=timestamp_to_proto(OCTOBER),
        create_time=timestamp_to_proto(OCTOBER),
    )
    entry.MergeFrom(hold_pb2.Entry(**fields))  # type: ignore[arg-type]
    return audit_pb2.Charge(entry=entry, lines=lines)


def charges() -> list[audit_pb2.Charge]:
    """A cost, its correction in the next month, a cost without parts, and an unknown one."""
    text = usage_pb2.USAGE_DIMENSION_OUTPUT_TEXT
    cost = make_charge(
        1, make_line("1000", "1.25", "0.00125"), make_line("3", "10", "0.00003", dimension=text)
    )
    back = make_charge(
        2,
        make_line("1000", "1.25", "-0.00125"),
        make_line("3", "10", "-0.00003", dimension=text),
        corrects_sequence=1,
        create_time=timestamp_to_proto(NOVEMBER),
    )
    back.corrected_create_time.CopyFrom(timestamp_to_proto(OCTOBER))
    whole = make_charge(3, amount=usd("0.000000000001"))
    usage = usage_pb2.Usage(quantities=[usage_pb2.Quantity(dimension=text, amount="7")])
    return [cost, back, whole, make_charge(4, usage=usage)]


def written(file: Path, version: str, **changed: str) -> Path:
    """All charges in a version of FOCUS, with cells changed in every row."""
    form = FOCUS_VERSIONS[version]
    rows = [row | changed for charge in charges() for row in form.rows_of(charge, "acme")]
    write_table(file, form.fields, rows)
    return file


def test_the_file_of_focus_1_0_passes_the_validator_as_it_is(tmp_path: Path) -> None:
    assert failures_of(written(tmp_path / "focus.csv", "1.0")) == []


def test_the_validator_is_heard(tmp_path: Path) -> None:
    assert failures_of(written(tmp_path / "wrong.csv", "1.0", ChargeClass="Refund"))


def test_the_columns_of_the_specification_come_first_and_say_the_same(tmp_path: Path) -> None:
    with written(tmp_path / "focus.csv", "1.0").open() as opened:
        rows = list(csv.DictReader(opened))
    names = list(rows[0])
    assert names == [*sorted(set(names) - set(VALIDATOR_NAMES)), *VALIDATOR_NAMES]
    for row in rows:
        assert [row[name] for name in VALIDATOR_NAMES] == [
            row[meant] for meant in VALIDATOR_NAMES.values()
        ]


def test_the_file_of_focus_1_2_has_its_columns_and_no_others(tmp_path: Path) -> None:
    with written(tmp_path / "focus.csv", "1.2").open() as opened:
        rows = list(csv.DictReader(opened))
    names = {field.name for field in focus.FIELDS}
    assert set(rows[0]) == names | {"ServiceSubcategory", "SkuMeter", "SkuPriceDetails"}
    assert {(row["ServiceSubcategory"], row["SkuMeter"]) for row in rows} == {
        ("Generative AI", "tokens"),
        ("Generative AI", ""),
    }


def test_only_corrections_of_earlier_periods_are_of_that_class() -> None:
    rows = [row for charge in charges() for row in focus.rows_of(charge, "acme")]
    assert [row["ChargeClass"] for row in rows] == [None, None, "Correction", "Correction", None]
    assert [row["BillingPeriodStart"].month for row in rows] == [10, 10, 11, 11, 10]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_every_digit_survives(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"charges{suffix}"
    rows = [row for charge in charges() for row in export_rows.rows_of(charge, "acme")]
    assert write_table(file, export_rows.FIELDS, rows) == 6
    if suffix == ".parquet":
        amounts = [row["amount"] for row in parquet.read_table(file).to_pylist()]
    else:
        with file.open() as opened:
            amounts = [
                Decimal(row["amount"]) if row["amount"] else None for row in csv.DictReader(opened)
            ]
    expected = ["0.00125", "0.00003", "-0.00125", "-0.00003", "0.000000000001"]
    assert amounts == [*map(Decimal, expected), None]
