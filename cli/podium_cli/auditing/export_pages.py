"""Fetches an export response by response into a folder, so that a broken one goes on where it was.

A response is a file that is there as a whole or not at all, and holds how far it reaches:
the last one is all that is needed to go on.
"""

import shutil
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path

from podium.ledger.v1 import audit_pb2
from podium.ledger.v1 import audit_service_pb2 as pb
from podium_kit.client.gateway import Gateway


class ExportPages:
    """The responses fetched so far for one file."""

    def __init__(
        self, file: Path, request: pb.ExportChargesRequest, address: tuple[str, str]
    ) -> None:
        """`address` is the gateway's URL and key: what others fetched is not gone on with."""
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
        """Every response, in order."""
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
