"""Fetches charges page by page into a folder, so that a broken export goes on where it was.

A page is a file that is there as a whole or not at all, and holds the token of the next
one: the last page is all that is needed to go on.
"""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from podium.ledger.v1 import audit_service_pb2 as audit_pb2
from podium_kit.client.gateway import Gateway

PAGE_SIZE = 5000


class ChargePages:
    """The pages fetched so far for one file."""

    def __init__(self, file: Path, month: str, tenant: str) -> None:
        asked = "-".join(part for part in (month or "all", tenant) if part)
        self._folder = file.with_name(f".{file.name}.{asked}.pages")
        self._month = month
        self._tenant = tenant

    async def fetch(self, gateway: Gateway) -> AsyncIterator[audit_pb2.ListChargesResponse]:
        """Fetches what is missing; every page as it arrives. Raises Rejected, Unreachable."""
        self._folder.mkdir(parents=True, exist_ok=True)
        number = len(self._files())
        token = self._last_token()
        while number == 0 or token:
            page = await gateway.get(
                "/v1/audit/charges",
                audit_pb2.ListChargesResponse,
                month=self._month,
                tenant=self._tenant,
                page_size=PAGE_SIZE,
                page_token=token,
            )
            self._keep(number, page)
            yield page
            number, token = number + 1, page.next_page_token

    def read(self) -> Iterator[audit_pb2.ListChargesResponse]:
        """Every page, in order."""
        for file in self._files():
            yield audit_pb2.ListChargesResponse.FromString(file.read_bytes())

    def forget(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.page"))

    def _last_token(self) -> str:
        files = self._files()
        if not files:
            return ""
        return audit_pb2.ListChargesResponse.FromString(files[-1].read_bytes()).next_page_token

    def _keep(self, number: int, page: audit_pb2.ListChargesResponse) -> None:
        unfinished = self._folder / f"{number:08d}.new"
        unfinished.write_bytes(page.SerializeToString())
        unfinished.rename(unfinished.with_suffix(".page"))
