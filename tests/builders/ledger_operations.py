"""Operations of the ledger one by one, each as a batch of one."""

from typing import TYPE_CHECKING, Any

from podium.ledger.v1 import cost_ledger_service_pb2 as pb

if TYPE_CHECKING:
    from podium.ledger.v1.cost_ledger_service_pb2_grpc import CostLedgerServiceAsyncStub as Stub
else:
    from podium.ledger.v1.cost_ledger_service_pb2_grpc import CostLedgerServiceStub as Stub


class LedgerOperations(Stub):
    """The ledger's stub, with a method for each operation of a batch."""

    async def Reserve(self, request: pb.ReserveRequest, **options: Any) -> pb.ReserveResponse:
        return (await self._one(options, reserve=request)).reserve

    async def Capture(self, request: pb.CaptureRequest, **options: Any) -> pb.CaptureResponse:
        return (await self._one(options, capture=request)).capture

    async def Release(self, request: pb.ReleaseRequest, **options: Any) -> pb.ReleaseResponse:
        return (await self._one(options, release=request)).release

    async def Record(self, request: pb.RecordRequest, **options: Any) -> pb.RecordResponse:
        return (await self._one(options, record=request)).record

    async def MarkDispatched(self, request: pb.MarkDispatchedRequest) -> pb.MarkDispatchedResponse:
        return (await self._one({}, mark_dispatched=request)).mark_dispatched

    async def _one(self, options: dict[str, Any], **operation: Any) -> pb.OperationResult:
        asked: Any = self.Apply
        batch = pb.ApplyRequest(operations=[pb.Operation(**operation)])
        reply: pb.ApplyResponse = await asked(batch, **options)
        return reply.results[0]
