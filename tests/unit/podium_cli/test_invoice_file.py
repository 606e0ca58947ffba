"""A provider's invoice as a spreadsheet writes it."""

from pathlib import Path

import pytest

from podium_cli.audit.invoice_file import read_invoice
from podium_operations.documents import InvalidDocument


@pytest.mark.parametrize("amount", ["0.002", '"0.002"'])
def test_amounts_are_read_as_written(tmp_path: Path, amount: str) -> None:
    path = tmp_path / "invoice.csv"
    path.write_text(f"id,time,amount\nr1,2026-10-31T09:30:00Z,{amount}\n")
    _, (line,) = read_invoice(path, "openai")
    assert line.amount.amount == "0.002"


def test_a_quote_that_is_never_closed_is_rejected_and_hides_no_line(tmp_path: Path) -> None:
    path = tmp_path / "invoice.csv"
    line = "2026-10-31T09:30:00Z,0.002"
    path.write_text(f'time,amount,id\n{line},r1\n{line},"r2\n{line},r3\n')
    with pytest.raises(InvalidDocument, match="line 4: unexpected end of data"):
        read_invoice(path, "openai")


def test_a_cell_that_no_reader_takes_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "invoice.csv"
    path.write_text(f"id,time,amount\n{'r' * 200_000},2026-10-31T09:30:00Z,1\n")
    with pytest.raises(InvalidDocument, match="line 2: field larger than field limit"):
        read_invoice(path, "openai")


def test_an_amount_with_a_comma_is_rejected_and_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "invoice.csv"
    path.write_text("id,time,amount\nr1,2026-10-31T09:30:00Z,0,002\n")
    with pytest.raises(InvalidDocument, match="line 1 has more cells") as rejected:
        read_invoice(path, "openai")
    assert "with a point" in rejected.value.fix


@pytest.mark.parametrize("amount", ["1e999999999", "1e-999999999", "0e999999999", "1e20", "NaN"])
def test_an_amount_that_no_invoice_has_is_named_by_its_line(tmp_path: Path, amount: str) -> None:
    path = tmp_path / "invoice.json"
    path.write_text(f'[{{"id": "r1", "time": "2026-10-31T09:30:00Z", "amount": {amount}}}]')
    with pytest.raises(InvalidDocument, match="line 1: amount"):
        read_invoice(path, "openai")


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "now"])
def test_a_time_that_no_invoice_has_is_named_by_its_line(tmp_path: Path, time: str) -> None:
    path = tmp_path / "invoice.csv"
    path.write_text(f"id,time,amount\nr1,{time},0.002\n")
    with pytest.raises(InvalidDocument, match="line 1 has the time"):
        read_invoice(path, "openai")
