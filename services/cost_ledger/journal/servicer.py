from collections.abc import Iterable
from typing import Any

import grpc

from cost_ledger.access import require_of_embeddings
from cost_ledger.journal.convert import (
    close_to_proto,
    hold_to_proto,
    listed_entry_to_proto,
    result_to_proto,
)
from cost_ledger.journal.convert_operations import close_from_proto, names_in, operation_from_proto
from cost_ledger.journal.service import CostLedger
from cost_ledger.spend.convert import (
    filter_from_proto,
    next_entries_page,
    next_report_page,
    report_from_proto,
    spend_row_to_proto,
)
from cost_ledger.spend.store import SpendReports
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import cost_ledger_service_pb2_grpc as rpc
from podium_kit.rpc.identity import Scope, current_identity, require_scope

Context = grpc.aio.ServicerContext[Any, Any]


class CostLedgerServicer(rpc.CostLedgerServiceServicer):
    def __init__(self, ledger: CostLedger, spend: SpendReports) -> None:
        self._ledger = ledger
        self._spend = spend

    async def ApplyEmbeddings(
        self, request: pb.ApplyEmbeddingsRequest, context: Context
    ) -> pb.ApplyEmbeddingsResponse:
        for operation in request.operations:
            require_of_embeddings(*names_in(operation))
        return pb.ApplyEmbeddingsResponse(results=await self._all(request.operations))

    async def Adjust(self, request: pb.AdjustRequest, context: Context) -> pb.AdjustResponse:
        [result] = await self._all([pb.Operation(adjust=request)])
        return result.adjust

    async def Settle(self, request: pb.SettleRequest, context: Context) -> pb.SettleResponse:
        [result] = await self._all([pb.Operation(settle=request)])
        return result.settle

    async def ClosePeriod(
        self, request: pb.ClosePeriodRequest, context: Context
    ) -> pb.ClosePeriodResponse:
        (closing,) = await self._ledger.apply([close_from_proto(request, current_identity())])
        return close_to_proto(closing)

    async def Apply(self, request: pb.ApplyRequest, context: Context) -> pb.ApplyResponse:
        return pb.ApplyResponse(results=await self._all(request.operations))

    async def ReleaseEpisode(
        self, request: pb.ReleaseEpisodeRequest, context: Context
    ) -> pb.ReleaseEpisodeResponse:
        tenant = current_identity().tenant
        released, kept = await self._ledger.release_episode(
            tenant, request.episode_id, keep_dispatched=request.keep_dispatched
        )
        return pb.ReleaseEpisodeResponse(holds=map(hold_to_proto, released), kept_keys=kept)

    async def ListEntries(
        self, request: pb.ListEntriesRequest, context: Context
    ) -> pb.ListEntriesResponse:
        wanted = filter_from_proto(request)
        entries = await self._ledger.entries(current_identity().tenant, wanted)
        return pb.ListEntriesResponse(
            entries=[listed_entry_to_proto(entry) for entry in entries],
            next_page_token=next_entries_page(entries, wanted.limit),
        )

    async def ReportSpend(
        self, request: pb.ReportSpendRequest, context: Context
    ) -> pb.ReportSpendResponse:
        report = report_from_proto(request)
        if report.all_tenants:
            require_scope(Scope.PLATFORM_ADMIN)
        rows = await self._spend.page(current_identity().tenant, report)
        return pb.ReportSpendResponse(
            rows=[spend_row_to_proto(row) for row in rows],
            next_page_token=next_report_page(report, rows),
        )

    async def _all(self, messages: Iterable[pb.Operation]) -> list[pb.OperationResult]:
        caller = current_identity()
        operations = [operation_from_proto(message, caller) for message in messages]
        outcomes = await self._ledger.apply(operations)
        return [result_to_proto(*pair) for pair in zip(operations, outcomes, strict=True)]
