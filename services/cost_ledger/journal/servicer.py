"""podium.ledger.v1.CostLedgerService: convert, call, convert."""

from typing import Any

import grpc

from cost_ledger.decisions.batches import Operation
from cost_ledger.journal.convert import hold_to_proto, listed_entry_to_proto
from cost_ledger.journal.convert_operations import (
    adjust_from_proto,
    capture_from_proto,
    close_from_proto,
    dispatch_from_proto,
    extend_from_proto,
    operation_from_proto,
    record_from_proto,
    release_from_proto,
    reserve_from_proto,
    reverse_from_proto,
    settle_from_proto,
)
from cost_ledger.journal.convert_results import close_to_proto, result_to_proto
from cost_ledger.journal.service import CostLedger
from cost_ledger.spend.convert import (
    filter_from_proto,
    next_entries_page,
    next_report_page,
    report_from_proto,
    spend_row_to_proto,
)
from cost_ledger.spend.service import SpendReports
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import cost_ledger_service_pb2_grpc as rpc
from podium_kit.rpc.identity import Scope, current_identity, require_scope

Context = grpc.aio.ServicerContext[Any, Any]


class CostLedgerServicer(rpc.CostLedgerServiceServicer):
    """The caller's tenant's journal; spending of all tenants is for the platform's admin."""

    def __init__(self, ledger: CostLedger, spend: SpendReports) -> None:
        self._ledger = ledger
        self._spend = spend

    async def Reserve(self, request: pb.ReserveRequest, context: Context) -> pb.ReserveResponse:
        caller = current_identity()
        return (await self._one(reserve_from_proto(request, caller))).reserve

    async def Capture(self, request: pb.CaptureRequest, context: Context) -> pb.CaptureResponse:
        caller = current_identity()
        return (await self._one(capture_from_proto(request, caller))).capture

    async def Release(self, request: pb.ReleaseRequest, context: Context) -> pb.ReleaseResponse:
        caller = current_identity()
        return (await self._one(release_from_proto(request, caller))).release

    async def Record(self, request: pb.RecordRequest, context: Context) -> pb.RecordResponse:
        caller = current_identity()
        return (await self._one(record_from_proto(request, caller))).record

    async def Reverse(self, request: pb.ReverseRequest, context: Context) -> pb.ReverseResponse:
        caller = current_identity()
        return (await self._one(reverse_from_proto(request, caller))).reverse

    async def Extend(self, request: pb.ExtendRequest, context: Context) -> pb.ExtendResponse:
        caller = current_identity()
        return (await self._one(extend_from_proto(request, caller))).extend

    async def MarkDispatched(
        self, request: pb.MarkDispatchedRequest, context: Context
    ) -> pb.MarkDispatchedResponse:
        caller = current_identity()
        return (await self._one(dispatch_from_proto(request, caller))).mark_dispatched

    async def Adjust(self, request: pb.AdjustRequest, context: Context) -> pb.AdjustResponse:
        caller = current_identity()
        return (await self._one(adjust_from_proto(request, caller))).adjust

    async def Settle(self, request: pb.SettleRequest, context: Context) -> pb.SettleResponse:
        caller = current_identity()
        return (await self._one(settle_from_proto(request, caller))).settle

    async def ClosePeriod(
        self, request: pb.ClosePeriodRequest, context: Context
    ) -> pb.ClosePeriodResponse:
        caller = current_identity()
        (closing,) = await self._ledger.apply([close_from_proto(request, caller)])
        return close_to_proto(closing)

    async def Apply(self, request: pb.ApplyRequest, context: Context) -> pb.ApplyResponse:
        caller = current_identity()
        operations = [operation_from_proto(message, caller) for message in request.operations]
        return pb.ApplyResponse(results=await self._all(operations))

    async def ReleaseEpisode(
        self, request: pb.ReleaseEpisodeRequest, context: Context
    ) -> pb.ReleaseEpisodeResponse:
        caller = current_identity()
        holds = await self._ledger.release_episode(caller.tenant, request.episode_id)
        return pb.ReleaseEpisodeResponse(holds=[hold_to_proto(hold) for hold in holds])

    async def ListEntries(
        self, request: pb.ListEntriesRequest, context: Context
    ) -> pb.ListEntriesResponse:
        caller = current_identity()
        wanted = filter_from_proto(request)
        entries = await self._ledger.entries(caller.tenant, wanted)
        return pb.ListEntriesResponse(
            entries=[listed_entry_to_proto(entry) for entry in entries],
            next_page_token=next_entries_page(entries, wanted.limit),
        )

    async def ReportSpend(
        self, request: pb.ReportSpendRequest, context: Context
    ) -> pb.ReportSpendResponse:
        report = report_from_proto(request)
        caller = current_identity()
        if report.all_tenants:
            require_scope(Scope.PLATFORM_ADMIN)
        rows = await self._spend.page(caller.tenant, report)
        return pb.ReportSpendResponse(
            rows=[spend_row_to_proto(row) for row in rows],
            next_page_token=next_report_page(report, rows),
        )

    async def _one(self, operation: Operation) -> pb.OperationResult:
        return (await self._all([operation]))[0]

    async def _all(self, operations: list[Operation]) -> list[pb.OperationResult]:
        outcomes = await self._ledger.apply(operations)
        return [result_to_proto(*pair) for pair in zip(operations, outcomes, strict=True)]
