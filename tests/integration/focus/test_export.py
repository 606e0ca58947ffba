import csv
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from cost_ledger.exports import focus
from cost_ledger.exports.convert import export_to_proto
from cost_ledger.exports.focus import FOCUS_1_0, FOCUS_1_2, NEW_IN_1_2, VALIDATOR_NAMES
from cost_ledger.exports.models import Charge, charge_of
from cost_ledger.exports.service import ChargesPage
from cost_ledger.exports.tables import CHARGES, Row, Table, Value
from cost_ledger.models import Call, Entry, EntryKind, Postings, Subject
from cost_ledger.posting import postings
from cost_ledger.prices.components import PriceComponent
from cost_ledger.prices.models import PriceHistory, PriceVersion
from integration.focus.validator import failures_of_1_0, failures_of_1_2, python_3_12
from podium_cli.audit.table_files import write_table
from podium_kit.metering import Dimension, Quantity, Usage, UsageSource
from podium_kit.money import Money

OCTOBER, NOVEMBER = datetime(2026, 10, 31, 23, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)
MILLION = Decimal(1_000_000)
PRICE = PriceVersion(
    id="v1",
    tenant="",
    sku="openai/gpt-5",
    currency_code="USD",
    components=(
        PriceComponent(Dimension.INPUT_FRESH, Decimal("1.25"), MILLION),
        PriceComponent(Dimension.OUTPUT_TEXT, Decimal(10), MILLION),
    ),
    start_time=None,
    end_time=None,
    source="",
    create_time=OCTOBER,
)


def make_entry(sequence: int, posted: Postings, **fields: Any) -> Entry:
    entry = Entry(
        sequence=sequence,
        kind=EntryKind.CAPTURE,
        call=Call(
            tenant="acme",
            key=f"episode/{sequence}",
            subject=Subject(tool="answer", model="gpt-5", user="ada"),
            sku="openai/gpt-5",
        ),
        postings=posted,
        price_version_id="v1",
        occur_time=OCTOBER,
        create_time=OCTOBER,
    )
    return replace(entry, **fields)


def charges() -> tuple[Charge, ...]:
    """A cost, its correction in the next month, a cost without parts, and an unknown one."""
    text = Quantity(Dimension.OUTPUT_TEXT, Decimal(3))
    usage = Usage((Quantity(Dimension.INPUT_FRESH, Decimal(1000)), text), UsageSource.PROVIDER)
    cost = make_entry(1, postings.spend(Money.parse("0.00128", "USD")), usage=usage)
    back = replace(
        cost,
        sequence=2,
        kind=EntryKind.SETTLE,
        postings=postings.opposite_cost(cost.postings),
        create_time=NOVEMBER,
        corrects_sequence=1,
    )
    whole = make_entry(3, postings.spend(Money.parse("0.000000000001", "USD")))
    unknown = make_entry(
        4,
        postings.spend(None),
        price_version_id="",
        usage=Usage((replace(text, amount=Decimal(7)),), UsageSource.PROVIDER),
    )
    history = PriceHistory((PRICE,))
    return (
        charge_of(cost, history),
        charge_of(back, history, OCTOBER),
        charge_of(whole, history),
        charge_of(unknown, history),
    )


def written(file: Path, table: Table, **changed: Value) -> int:
    """Writes all charges in a table, with cells changed in every row, and returns the rows."""

    def rows_of(charge: Charge) -> Iterator[Row]:
        return (row | changed for row in table.rows_of(charge))

    exported = export_to_proto(replace(table, rows_of=rows_of), ChargesPage(charges(), 4, 4))
    assert exported.unpriced_call_count == 1
    return write_table(file, exported.columns, [row.values for row in exported.rows])


def test_the_file_of_focus_1_0_passes_the_validator_as_it_is(tmp_path: Path) -> None:
    written(tmp_path / "focus.csv", FOCUS_1_0)
    assert failures_of_1_0(tmp_path / "focus.csv") == []


def test_a_finding_of_the_validator_fails_the_profile(tmp_path: Path) -> None:
    written(tmp_path / "wrong.csv", FOCUS_1_0, ChargeClass="Refund")
    assert failures_of_1_0(tmp_path / "wrong.csv")


if python_3_12():

    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    def test_the_file_of_focus_1_2_passes_the_validator(tmp_path: Path, suffix: str) -> None:
        written(file := tmp_path / f"focus{suffix}", FOCUS_1_2)
        assert failures_of_1_2(file) == []

    def test_a_finding_of_the_validator_fails_focus_1_2(tmp_path: Path) -> None:
        written(tmp_path / "wrong.csv", FOCUS_1_2, ChargeClass="Refund")
        assert failures_of_1_2(tmp_path / "wrong.csv")


def test_the_columns_of_the_specification_come_first_and_say_the_same(tmp_path: Path) -> None:
    written(file := tmp_path / "focus.csv", FOCUS_1_0)
    with file.open() as opened:
        rows = list(csv.DictReader(opened))
    names = list(rows[0])
    assert names == [*sorted(set(names) - set(VALIDATOR_NAMES)), *VALIDATOR_NAMES]
    for row in rows:
        assert [row[name] for name in VALIDATOR_NAMES] == [
            row[meant] for meant in VALIDATOR_NAMES.values()
        ]


def test_the_file_of_focus_1_2_has_its_columns_and_no_others(tmp_path: Path) -> None:
    written(file := tmp_path / "focus.csv", FOCUS_1_2)
    with file.open() as opened:
        rows = list(csv.DictReader(opened))
    assert set(rows[0]) == set(focus.KINDS) | set(NEW_IN_1_2)
    assert {(row["ServiceSubcategory"], row["SkuMeter"]) for row in rows} == {
        ("Generative AI", "tokens"),
        ("Generative AI", ""),
    }


def test_only_corrections_of_earlier_periods_are_of_that_class() -> None:
    rows = [row for charge in charges() for row in focus.rows_of(charge)]
    assert [row["ChargeClass"] for row in rows] == [None, None, "Correction", None]
    months = [10, 10, 11, 10]
    starts = [datetime(2026, month, 1, tzinfo=UTC) for month in months]
    assert [row["BillingPeriodStart"] for row in rows] == starts


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_every_digit_survives(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"charges{suffix}"
    assert written(file, CHARGES) == 5
    if suffix == ".parquet":
        amounts = [row["amount"] for row in parquet.read_table(file).to_pylist()]
    else:
        with file.open() as opened:
            amounts = [
                Decimal(row["amount"]) if row["amount"] else None for row in csv.DictReader(opened)
            ]
    expected = ["0.00125", "0.00003", "-0.00128", "0.000000000001"]
    assert amounts == [*map(Decimal, expected), None]
