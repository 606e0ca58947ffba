from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from cost_ledger.access import tenant_named
from cost_ledger.audit.anchoring import Anchors
from cost_ledger.audit.convert import (
    anchor_to_proto,
    explanation_to_proto,
    proof_to_proto,
    range_from_proto,
    simulated_to_proto,
    step_to_proto,
    window_from_proto,
)
from cost_ledger.audit.service import Audit
from cost_ledger.audit.verification import Verification
from cost_ledger.errors import AuditBusy
from cost_ledger.exports.convert import (
    charges_to_proto,
    export_to_proto,
    month_from_proto,
    table_from_proto,
)
from cost_ledger.exports.service import ChargeReader
from cost_ledger.invoices.convert import (
    invoice_from_proto,
    lines_from_proto,
    matches_to_proto,
    reconciled_to_proto,
    states_from_proto,
)
from cost_ledger.prices.convert import spec_from_proto
from podium.ledger.v1 import audit_service_pb2 as pb
from podium.ledger.v1 import audit_service_pb2_grpc as rpc
from podium_kit.limits.concurrency import FairSemaphore
from podium_kit.limits.time_limit import time_limit
from podium_kit.rpc.identity import current_identity
from podium_kit.rpc.pages import decode_page_token, encode_page_token, page_size, token_number

# Each computes for up to seconds, beside the calls that post.
AT_ONCE, AT_ONCE_PER_TENANT = 2, 1
WAIT_S, RETRY_AFTER_S = 20.0, 5.0

Context = grpc.aio.ServicerContext[Any, Any]


class AuditServicer(rpc.AuditServiceServicer):
    def __init__(
        self,
        audit: Audit,
        verification: Verification,
        anchors: Anchors,
        charges: ChargeReader,
        wait_s: float = WAIT_S,
    ) -> None:
        self._audit = audit
        self._verification = verification
        self._anchors = anchors
        self._charges = charges
        self._places = FairSemaphore(AT_ONCE, AT_ONCE_PER_TENANT)
        self._wait_s = wait_s

    async def ExplainEntry(
        self, request: pb.ExplainEntryRequest, context: Context
    ) -> pb.ExplainEntryResponse:
        explanation = await self._audit.explain(tenant_named(request.tenant), request.entry)
        return pb.ExplainEntryResponse(explanation=explanation_to_proto(explanation))

    async def VerifyLedger(
        self, request: pb.VerifyLedgerRequest, context: Context
    ) -> pb.VerifyLedgerResponse:
        tenant = tenant_named(request.tenant)
        async with self._place():
            step = await self._verification.step(tenant, *range_from_proto(request))
        return step_to_proto(step)

    async def ListAnchors(
        self, request: pb.ListAnchorsRequest, context: Context
    ) -> pb.ListAnchorsResponse:
        limit = page_size(request.page_size, 100, 1000)
        found = await self._anchors.page(
            decode_page_token(request.page_token).get("day", ""), limit
        )
        more = len(found) == limit
        return pb.ListAnchorsResponse(
            anchors=[anchor_to_proto(anchor) for anchor in found],
            next_page_token=encode_page_token({"day": found[-1].root.day}) if more else "",
        )

    async def ProveEntry(
        self, request: pb.ProveEntryRequest, context: Context
    ) -> pb.ProveEntryResponse:
        proven = await self._audit.prove(tenant_named(request.tenant), request.entry)
        return pb.ProveEntryResponse(proof=proof_to_proto(*proven))

    async def ListCharges(
        self, request: pb.ListChargesRequest, context: Context
    ) -> pb.ListChargesResponse:
        tenant = tenant_named(request.tenant)
        month = month_from_proto(request.month)
        after = token_number(decode_page_token(request.page_token), "after", 0)
        limit = page_size(request.page_size, 1000, 5000)
        return charges_to_proto(await self._charges.page(tenant, month, after, limit), tenant)

    async def ExportCharges(
        self, request: pb.ExportChargesRequest, context: Context
    ) -> AsyncIterator[pb.ExportChargesResponse]:
        tenant, table = tenant_named(request.tenant), table_from_proto(request.format)
        month = month_from_proto(request.month)
        async for page in self._charges.pages(tenant, month, request.after_sequence):
            yield export_to_proto(table, page)

    async def AddInvoiceLines(
        self, request: pb.AddInvoiceLinesRequest, context: Context
    ) -> pb.AddInvoiceLinesResponse:
        invoice, lines = invoice_from_proto(request.invoice), lines_from_proto(request)
        count = await self._audit.add_invoice(current_identity().tenant, invoice, lines)
        return pb.AddInvoiceLinesResponse(created_count=count)

    async def ReconcileInvoice(
        self, request: pb.ReconcileInvoiceRequest, context: Context
    ) -> pb.ReconcileInvoiceResponse:
        async with self._place():
            found = await self._audit.reconcile(current_identity().tenant, request.invoice_id)
        return reconciled_to_proto(*found)

    async def ListInvoiceMatches(
        self, request: pb.ListInvoiceMatchesRequest, context: Context
    ) -> pb.ListInvoiceMatchesResponse:
        limit = page_size(request.page_size, 100, 1000)
        matches = await self._audit.matches(
            current_identity().tenant,
            request.invoice_id,
            states_from_proto(request),
            token_number(decode_page_token(request.page_token), "after", 0),
            limit,
        )
        return matches_to_proto(matches, limit)

    async def SimulatePrices(
        self, request: pb.SimulatePricesRequest, context: Context
    ) -> pb.SimulatePricesResponse:
        tenant = tenant_named(request.tenant)
        specs = [spec_from_proto(spec, tenant) for spec in request.specs]
        window = window_from_proto(request)
        async with self._place():
            simulated = await self._audit.simulate(tenant, specs, window)
        return simulated_to_proto(*simulated)

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        tenant = current_identity().tenant
        try:
            async with time_limit(self._wait_s):
                await self._places.acquire(tenant)
        except TimeoutError as error:
            raise AuditBusy(RETRY_AFTER_S) from error
        try:
            yield
        finally:
            self._places.release(tenant)
