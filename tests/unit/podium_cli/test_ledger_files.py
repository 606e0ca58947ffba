"""Price lists, invoices and exports as files."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from podium.common.v1 import usage_pb2
from podium.ledger.v1 import audit_pb2, audit_service_pb2
from podium.ledger.v1 import price_book_service_pb2 as pb
from podium_cli.audit.invoice_file import read_invoice
from podium_cli.audit.table_files import ExportPages
from podium_cli.inputs import parse_time
from podium_cli.prices.lists import InvalidCell, format_price, format_sku, read_price_list
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway
from podium_operations.documents import InvalidDocument

HEADER = "sku,dimension,unit_price,per,from_tokens,until_tokens,weekdays,start,end,service_class"


def read(folder: Path, *lines: str, header: str = HEADER) -> list[pb.PriceSpec]:
    path = folder / "prices.csv"
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8-sig")
    return read_price_list(path)


def test_lines_of_one_sku_are_the_components_of_one_price(tmp_path: Path) -> None:
    (price,) = read(
        tmp_path,
        "openai/gpt-5,input_fresh,1.25,1000000,,,,,,",
        "openai/gpt-5,output_text,10,1000000,,,,,,",
    )
    assert (price.sku, price.currency_code) == ("openai/gpt-5", "USD")
    assert format_price(price) == "$1.25 per million input fresh; $10 per million output text"


def test_bands_and_hours_are_read_and_printed_in_words(tmp_path: Path) -> None:
    (price,) = read(
        tmp_path,
        "m,input_fresh,1,1000000,,200000,,,,",
        "m,input_fresh,2,1000000,200000,,,,,",
        "m,output_text,3,1000000,,,,,,",
        "m,output_text,6,1000000,,,monday friday,08:30,24:00,",
    )
    assert format_price(price) == (
        "$1 per million input fresh (prompts below 200000 tokens); "
        "$2 per million input fresh (prompts from 200000 tokens); "
        "$3 per million output text; "
        "$6 per million output text (Mon Fri 08:30-24:00 UTC)"
    )
    assert price.components[1].band == pb.TokenBand(from_tokens=200_000)
    assert price.components[3].dimension == usage_pb2.USAGE_DIMENSION_OUTPUT_TEXT


def test_a_service_class_is_a_price_of_its_own(tmp_path: Path) -> None:
    prices = read(tmp_path, "m,call,1,,,,,,,", "m,call,0.5,,,,,,,batch")
    assert [format_sku(price) for price in prices] == ["m", "m (batch)"]


def test_validity_and_owner_are_parsed(tmp_path: Path) -> None:
    header = "sku,dimension,unit_price,currency,valid_from,valid_until,tenant,source"
    line = "m,call,1,EUR,2026-01-01T00:00:00Z,2027-01-01T00:00:00Z,acme,the contract"
    (price,) = read(tmp_path, line, header=header)
    assert (price.currency_code, price.tenant, price.source) == (
        "EUR",
        "acme",
        "the contract",
    )
    assert price.end_time.ToDatetime().year - price.start_time.ToDatetime().year == 1


@pytest.mark.parametrize(
    ("header", "line", "complaint"),
    [
        ("sku,price", "m,1", "has no column dimension, unit_price"),
        ("sku,dimension,unit_price,colour", "m,call,1,red", "unknown columns colour"),
        ("sku,dimension,unit_price,unit_price", "m,call,1,2", "two columns unit_price"),
        (HEADER, "m,call,,1,,,,,,", "line 2: unit_price is empty"),
        (HEADER, '"m"n,call,1,,,,,,,', "line 2: ',' expected after"),
        (HEADER, "m,tokens,1,,,,,,,", "line 2: dimension is 'tokens'"),
        (HEADER, "m,call,-1,,,,,,,", "line 2: unit_price is '-1'"),
        (HEADER, "m,call,1,,few,,,,,", "line 2: from_tokens is 'few'"),
        (HEADER, "m,call,1,,,,someday,01:00,02:00,", "line 2: weekdays is 'someday'"),
        (HEADER, "m,call,1,,,,monday,1:00,02:00,", "line 2: start is '1:00'"),
        ("sku,dimension,unit_price,valid_from", "m,call,1,2026", "valid_from is '2026'"),
        ("sku,dimension,unit_price", "m,call,0,002", "line 2 has more cells than there are"),
    ],
)
def test_a_list_that_cannot_be_read_names_what_is_wrong(
    tmp_path: Path, header: str, line: str, complaint: str
) -> None:
    with pytest.raises(InvalidDocument, match=complaint):
        read(tmp_path, line, header=header)


def test_times_are_written_as_people_write_them() -> None:
    assert parse_time("2026-03-01T14:00:00+02:00") == "2026-03-01T12:00:00.000000Z"
    assert parse_time("") == ""
    with pytest.raises(UsageError, match="not a time"):
        parse_time("yesterday")


def test_a_file_that_is_not_utf_8_is_rejected_by_name(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_bytes(b"sku,dimension,unit_price\n\xff,input_fresh,1\n")
    with pytest.raises(InvalidDocument, match="is not UTF-8"):
        read_price_list(path)


def test_a_wrong_cell_names_what_its_column_takes(tmp_path: Path) -> None:
    with pytest.raises(InvalidCell) as rejected:
        read(tmp_path, "m,call,1,,,,,,,", "m,tokens,1,,,,,,,")
    assert "line 3: dimension is 'tokens'" in rejected.value.cause
    assert "input_fresh, " in rejected.value.fix
    assert "call" in rejected.value.fix


def test_a_yaml_list_with_an_unknown_dimension_names_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("sku: m\ncomponents: [{dimension: tokens, unit_price: '1'}]\n")
    with pytest.raises(InvalidDocument, match=r"components\[0\]\.dimension: there is no"):
        read_price_list(path)


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


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("r1,0001-01-01T00:00:00+14:00,0.002", "line 1 has the time"),
        ("r1,9999-12-31T23:59:59-12:00,0.002", "line 1 has the time"),
        ("r1,now,0.002", "line 1 has the time"),
        (f"{'r' * 200_000},2026-10-31T09:30:00Z,1", "line 2: field larger than field limit"),
    ],
    ids=["too early", "too late", "no time", "too long"],
)
def test_a_cell_that_no_invoice_has_is_named_by_its_line(
    tmp_path: Path, line: str, fault: str
) -> None:
    path = tmp_path / "invoice.csv"
    path.write_text(f"id,time,amount\n{line}\n")
    with pytest.raises(InvalidDocument, match=fault):
        read_invoice(path, "openai")


REQUEST = audit_service_pb2.ExportChargesRequest(format=audit_pb2.EXPORT_FORMAT_CHARGES)
ADDRESS = "https://podium.example.com", "key"


class Journal(Gateway):
    def __init__(self, head: int) -> None:
        self.head = head

    async def stream(self, path: str, reply: Any, **query: Any) -> AsyncIterator[Any]:
        rows = range((query["after_sequence"] or 0) + 1, self.head + 1)
        yield audit_service_pb2.ExportChargesResponse(
            rows=[audit_pb2.ExportRow(values=[str(each)]) for each in rows],
            sequence=self.head,
            head_sequence=self.head,
        )


async def test_what_was_posted_since_a_fetch_that_was_not_written_is_fetched(
    tmp_path: Path,
) -> None:
    journal = Journal(head=2)
    for journal.head in (2, 5):
        pages = ExportPages(tmp_path / "all.csv", REQUEST, ADDRESS)
        assert [page.sequence async for page in pages.fetch(journal)] == [journal.head]
    rows = [row.values[0] for page in pages.read() for row in page.rows]
    assert rows == ["1", "2", "3", "4", "5"]


async def test_what_another_tenant_or_platform_fetched_is_not_gone_on_with(tmp_path: Path) -> None:
    journal, file = Journal(head=2), tmp_path / "all.csv"
    for address in (ADDRESS, (ADDRESS[0], "another key"), ("http://127.0.0.1:1", ADDRESS[1])):
        pages = ExportPages(file, REQUEST, address)
        assert [page.sequence async for page in pages.fetch(journal)] == [2]
        assert [row.values[0] for page in pages.read() for row in page.rows] == ["1", "2"]
