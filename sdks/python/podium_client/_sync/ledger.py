# Written by `make sdk` from podium_client/_async; do not edit.
"""The ledger: what was spent on what, and the proof of it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal

from podium_client._sync.pages import Pages
from podium_client._sync.transport import Transport, required
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


class Ledger:
    """Reports and entries, read as an auditor reads them."""

    def __init__(self, transport: Transport) -> None:
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
    ) -> Pages[SpendRow]:
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
    ) -> Pages[Entry]:
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

    def explain(self, entry: int | str) -> Explanation:
        """Everything about one entry: its sequence, or the key of a call."""
        reply = self._transport.call(
            "GET", "/v1/audit/explain", ExplainEntryResponse, query={"entry": str(entry)}
        )
        return required(reply.explanation)

    def verify(
        self, *, from_sequence: int = 0, to_sequence: int = 0
    ) -> Iterator[VerifyLedgerResponse]:
        """Recomputes the journal step by step; `findings` of a step say what is wrong."""
        page_token = ""
        while True:
            step = self._transport.call(
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

    def anchors(self, *, page_size: int = 0) -> Pages[Anchor]:
        """Signed daily roots, oldest first."""
        return self._transport.pages(
            "/v1/audit/anchors",
            ListAnchorsResponse,
            lambda page: (page.anchors, page.next_page_token),
            {"page_size": page_size},
        )

    def prove(self, entry: int | str) -> InclusionProof:
        """Proves that an entry is under a signed root."""
        reply = self._transport.call(
            "GET", "/v1/audit/proof", ProveEntryResponse, query={"entry": str(entry)}
        )
        return required(reply.proof)

    def charges(self, month: str = "", *, page_size: int = 0) -> Pages[Charge]:
        """Costs and corrections with their parts. A month is like 2026-11."""
        return self._transport.pages(
            "/v1/audit/charges",
            ListChargesResponse,
            lambda page: (page.charges, page.next_page_token),
            {"month": month, "page_size": page_size},
        )

    def export(
        self, export_format: str, month: str = "", *, after_sequence: int = 0
    ) -> Iterator[ExportChargesResponse]:
        """Rows of a table as they come; a format is like EXPORT_FORMAT_FOCUS_1_2.

        Whole when `sequence` has reached `head_sequence`; else continue after that sequence.
        """
        parts = self._transport.lines(
            "/v1/audit/export",
            ExportChargesResponse,
            {"format": export_format, "month": month, "after_sequence": after_sequence},
        )
        for part in parts:
            yield part

    def close_period(self, key: str, end_time: datetime) -> Entry:
        """Closes the books before a time; the same key again is the same closing."""
        body = ClosePeriodRequest(key=key, end_time=end_time)
        reply = self._transport.call(
            "POST", "/v1/audit/close", ClosePeriodResponse, body=body
        )
        return required(reply.entry)

    def simulate(self, request: SimulatePricesRequest) -> SimulatePricesResponse:
        """Returns the costs of a page of past calls under other prices."""
        return self._transport.call(
            "POST", "/v1/audit/simulate", SimulatePricesResponse, body=request
        )

    def add_invoice_lines(self, request: AddInvoiceLinesRequest) -> int:
        """Adds lines of an invoice and returns the number of new ones."""
        reply = self._transport.call(
            "POST", "/v1/invoices", AddInvoiceLinesResponse, body=request
        )
        return reply.created_count

    def reconcile_invoice(self, invoice_id: str) -> ReconcileInvoiceResponse:
        """Compares an invoice with the ledger."""
        address = path("/v1/invoices/{id}/reconcile", id=invoice_id)
        return self._transport.call("POST", address, ReconcileInvoiceResponse, body={})

    def invoice_matches(
        self, invoice_id: str, *, states: Sequence[str] = (), page_size: int = 0
    ) -> Pages[InvoiceMatch]:
        """Lists the results of the last comparison."""
        return self._transport.pages(
            path("/v1/invoices/{id}/matches", id=invoice_id),
            ListInvoiceMatchesResponse,
            lambda page: (page.matches, page.next_page_token),
            {"states": states, "page_size": page_size},
        )
