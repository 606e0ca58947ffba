from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from podium.ledger.v1 import audit_pb2
from podium.ledger.v1 import audit_service_pb2 as pb
from podium_cli.audit.table_files import ExportPages
from podium_kit.client.gateway import Gateway

REQUEST = pb.ExportChargesRequest(format=audit_pb2.EXPORT_FORMAT_CHARGES)
ADDRESS = "https://podium.example.com", "key"


class Journal(Gateway):
    def __init__(self, head: int) -> None:
        self.head = head

    async def stream(self, path: str, reply: Any, **query: Any) -> AsyncIterator[Any]:
        rows = range((query["after_sequence"] or 0) + 1, self.head + 1)
        yield pb.ExportChargesResponse(
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
