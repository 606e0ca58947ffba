"""The ledger: what was spent on what, and the proof of it."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Literal

from podium_client._async.pages import AsyncPages
from podium_client._async.transport import AsyncTransport, required
from podium_client.models import (
    AddInvoiceLinesRequest,
    AddInvoiceLinesResponse,
    Anchor,
    Charge,
    ClosePeriodRequest,
    ClosePeriodResponse,
    Entry,
    ExplainEntryResponse,
    Explanation,
    ExportChargesResponse,
    InclusionProof,
    InvoiceMatch,
    ListAnchorsResponse,
    ListChargesResponse,
    ListEntriesResponse,
    ListInvoiceMatchesResponse,
    ProveEntryResponse,
    ReconcileInvoiceResponse,
    ReportSpendResponse,
    SimulatePricesRequest,
    SimulatePricesResponse,
    SpendRow,
    VerifyLedgerResponse,
)
from podium_client.wire import path

SpendBy = Literal["day", "model", "tool", "episode", "user", "team", "price_version", "tenant"]


class AsyncLedger:
    """Reports and entries, read as an auditor reads them."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def spend(
        self,
        by: Sequence[SpendBy] = (),
        *,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        episode_id: str = "",
        all_tenants: bool = False,
        page_size: int = 0,
    ) -> AsyncPages[SpendRow]:
        """Sums, most expensive first, grouped by at most three things; none means one total."""
        return self._transport.pages(
            "/v1/spend",
            ReportSpendResponse,
            lambda page: (page.rows, page.next_page_token),
            {
                "group_by": [f"SPEND_DIMENSION_{each.upper()}" for each in by],
                "start_time": start_time,
                "end_time": end_time,
                "episode_id": episode_id,
                "all_tenants": all_tenants,
                "page_size": page_size,
            },
        )

    def entries(
        self,
        *,
        episode_id: str = "",
        kinds: Sequence[str] = (),
        unpriced: bool = False,
        page_size: int = 0,
    ) -> AsyncPages[Entry]:
        """The journal. A kind is like ENTRY_KIND_CAPTURE; `unpriced` keeps unknown costs."""
        return self._transport.pages(
            "/v1/entries",
            ListEntriesResponse,
            lambda page: (page.entries, page.next_page_token),
            {
                "episode_id": episode_id,
                "kinds": kinds,
                "unpriced": unpriced,
                "page_size": page_size,
            },
        )

    async def explain(self, entry: int | str) -> Explanation:
        """Everything about one entry: its sequence, or the key of a call."""
        reply = await self._transport.call(
            "GET", "/v1/audit/explain", ExplainEntryResponse, query={"entry": str(entry)}
        )
        return required(reply.explanation)

    async def verify(
        self, *, from_sequence: int = 0, to_sequence: int = 0
    ) -> AsyncIterator[VerifyLedgerResponse]:
        """Recomputes the journal step by step; `findings` of a step say what is wrong."""
        page_token = ""
        while True:
            step = await self._transport.call(
                "GET",
                "/v1/audit/verify",
                VerifyLedgerResponse,
                query={
                    "from_sequence": from_sequence,
                    "to_sequence": to_sequence,
                    "page_token": page_token,
                },
            )
            yield step
            page_token = step.next_page_token
            if not page_token:
                return

    def anchors(self, *, page_size: int = 0) -> AsyncPages[Anchor]:
        """Signed daily roots, oldest first."""
        return self._transport.pages(
            "/v1/audit/anchors",
            ListAnchorsResponse,
            lambda page: (page.anchors, page.next_page_token),
            {"page_size": page_size},
        )

    async def prove(self, entry: int | str) -> InclusionProof:
        """Proves that an entry is under a signed root."""
        reply = await self._transport.call(
            "GET", "/v1/audit/proof", ProveEntryResponse, query={"entry": str(entry)}
        )
        return required(reply.proof)

    def charges(self, month: str = "", *, page_size: int = 0) -> AsyncPages[Charge]:
        """Costs and corrections with their parts. A month is like 2026-11."""
        return self._transport.pages(
            "/v1/audit/charges",
            ListChargesResponse,
            lambda page: (page.charges, page.next_page_token),
            {"month": month, "page_size": page_size},
        )

    async def export(
        self, export_format: str, month: str = "", *, after_sequence: int = 0
    ) -> AsyncIterator[ExportChargesResponse]:
        """Rows of a table as they come; a format is like EXPORT_FORMAT_FOCUS_1_2.

        Whole when `sequence` has reached `head_sequence`; else continue after that sequence.
        """
        parts = self._transport.lines(
            "/v1/audit/export",
            ExportChargesResponse,
            {"format": export_format, "month": month, "after_sequence": after_sequence},
        )
        async for part in parts:
            yield part

    async def close_period(self, key: str, end_time: datetime) -> Entry:
        """Closes the books before a time; the same key again is the same closing."""
        body = ClosePeriodRequest(key=key, end_time=end_time)
        reply = await self._transport.call(
            "POST", "/v1/audit/close", ClosePeriodResponse, body=body
        )
        return required(reply.entry)

    async def simulate(self, request: SimulatePricesRequest) -> SimulatePricesResponse:
        """Returns the costs of a page of past calls under other prices."""
        return await self._transport.call(
            "POST", "/v1/audit/simulate", SimulatePricesResponse, body=request
        )

    async def add_invoice_lines(self, request: AddInvoiceLinesRequest) -> int:
        """Adds lines of an invoice and returns the number of new ones."""
        reply = await self._transport.call(
            "POST", "/v1/invoices", AddInvoiceLinesResponse, body=request
        )
        return reply.created_count

    async def reconcile_invoice(self, invoice_id: str) -> ReconcileInvoiceResponse:
        """Compares an invoice with the ledger."""
        address = path("/v1/invoices/{id}/reconcile", id=invoice_id)
        return await self._transport.call("POST", address, ReconcileInvoiceResponse, body={})

    def invoice_matches(
        self, invoice_id: str, *, states: Sequence[str] = (), page_size: int = 0
    ) -> AsyncPages[InvoiceMatch]:
        """Lists the results of the last comparison."""
        return self._transport.pages(
            path("/v1/invoices/{id}/matches", id=invoice_id),
            ListInvoiceMatchesResponse,
            lambda page: (page.matches, page.next_page_token),
            {"states": states, "page_size": page_size},
        )
