"""No cell of an exported CSV is a formula to a spreadsheet, and every text can be read back."""

import csv
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from podium.ledger.v1 import audit_pb2
from podium_cli.audit.table_files import write_table

TEXT = audit_pb2.ExportColumn(name="team", kind=audit_pb2.EXPORT_COLUMN_KIND_TEXT)
MONEY = audit_pb2.ExportColumn(name="amount", kind=audit_pb2.EXPORT_COLUMN_KIND_MONEY)
ATTACKS = (
    '=HYPERLINK("http://evil.example")',
    "+1+1",
    "-2+3",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    " =1",
    "\u00a0=1",
    "\uff1d1",
    "|cmd",
    "'=1",
)
BEGINNINGS = "=+-@|%\t\r\uff1d\uff0b\uff0d\uff20"


@given(texts=st.lists(st.one_of(st.sampled_from(ATTACKS), st.text(max_size=9)), min_size=1))
def test_texts_are_neutralised_reversibly_and_amounts_stay_numbers(
    tmp_path_factory: object, texts: list[str]
) -> None:
    texts = [text.replace("\0", "").encode(errors="replace").decode() for text in texts]
    path = Path(tmp_path_factory.mktemp("export")) / "charges.csv"  # type: ignore[attr-defined]
    write_table(path, [TEXT, MONEY], [[text, "-1.5"] for text in texts])
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    assert [amount for _, amount in rows] == ["-1.5"] * len(texts)
    for (cell, _), text in zip(rows, texts, strict=True):
        assert cell.lstrip()[:1] not in tuple(BEGINNINGS)
        assert cell == text or (cell[:1] == "'" and cell[1:] == text)
        assert cell != text or text[:1] != "'"
