"""An export that is cut continues after the last response that arrived, also in another run."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from podium.ledger.v1 import audit_pb2
from podium.ledger.v1 import audit_service_pb2 as pb
from podium_cli.audit.table_files import ExportPages
from podium_kit.client.gateway import Gateway

LAST = 4
REQUEST = pb.ExportChargesRequest(format=audit_pb2.EXPORT_FORMAT_CHARGES, month="2026-10")


class CutShort(BaseHTTPRequestHandler):
    """Answers two responses a request, then an error as the gateway writes it."""

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        after = int(query.get("after_sequence", ["0"])[0])
        self.send_response(200)
        self.end_headers()
        for sequence in range(after + 1, min(after + 2, LAST) + 1):
            row = {"values": [str(sequence)]}
            page = {"rows": [row], "sequence": sequence, "head_sequence": LAST}
            self.wfile.write(json.dumps(page).encode() + b"\n")
        if after + 2 < LAST:
            self.wfile.write(b'{"error": {"message": "the ledger went away"}}\n')

    def log_message(self, *_: object) -> None:
        """Keeps the test's output clean."""


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), CutShort) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_a_cut_export_has_every_row_once(url: str, tmp_path: Path) -> None:
    async with Gateway(url, "key") as gateway:
        # The first run is broken off by its caller, the second by the gateway.
        async for page in ExportPages(tmp_path / "all.csv", REQUEST, (url, "key")).fetch(gateway):
            assert page.sequence == 1
            break
        pages = ExportPages(tmp_path / "all.csv", REQUEST, (url, "key"))
        fetched = [page.sequence async for page in pages.fetch(gateway)]
    assert fetched == [2, 3, 4]
    rows = [list(row.values) for page in pages.read() for row in page.rows]
    assert rows == [["1"], ["2"], ["3"], ["4"]]
    pages.forget()
    assert list(pages.read()) == []
