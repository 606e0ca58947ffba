import asyncio
from decimal import Decimal
from typing import Any

import grpc

from podium.common.v1 import money_pb2, usage_pb2
from podium.ledger.v1 import alert_pb2, hold_pb2
from podium.ledger.v1 import budget_service_pb2 as budget_pb
from podium.ledger.v1 import budget_service_pb2_grpc as budget_rpc
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import cost_ledger_service_pb2_grpc as ledger_rpc
from podium_kit.metering import InvalidUsage
from podium_kit.wire import usage_from_proto

Context = grpc.aio.ServicerContext[Any, Any]
UNIT_PRICE = Decimal("0.000000000123")


class SimpleLedger(ledger_rpc.CostLedgerServiceServicer, budget_rpc.BudgetServiceServicer):
    """Holds and captures by key, each unit at one price; one budget per episode."""

    def __init__(self) -> None:
        self.holds: dict[str, ledger_pb.ReserveRequest] = {}
        self.captured: dict[str, Decimal] = {}
        # Why a call has no price.
        self.unpriced: dict[str, str] = {}
        self.answered_by: dict[str, hold_pb2.Fallback] = {}
        self.released: set[str] = set()
        self.reject_after: int | None = None
        # The budget that rejects; `{episode}` is the id of the episode that asks.
        self.rejecting_budget = "b"
        # How many holds the budgets have room for at once.
        self.open_max: int | None = None
        self.open_seen = 0
        # How long after a hold it answers.
        self.delay_s = 0.0
        # The longest answer the budgets cover.
        self.output_tokens_max: int | None = None
        self.budgets: list[budget_pb.Budget] = []
        self.alerts: list[alert_pb2.BudgetAlert] = []

    async def ListAlerts(
        self, request: budget_pb.ListAlertsRequest, context: Context
    ) -> budget_pb.ListAlertsResponse:
        place = int(request.page_token or 0)
        more = place + 1 < len(self.alerts)
        return budget_pb.ListAlertsResponse(
            alerts=self.alerts[place : place + 1],
            next_page_token=f"{place + 1}" if more else "",
        )

    def open(self) -> set[str]:
        return self.holds.keys() - self.captured.keys() - self.released

    def total(self, episode_id: str) -> Decimal:
        keys = [key for key in self.captured if key.startswith(episode_id)]
        return sum((self.captured[key] for key in keys), Decimal(0))

    async def Apply(
        self, request: ledger_pb.ApplyRequest, context: Context
    ) -> ledger_pb.ApplyResponse:
        for operation in request.operations:
            if operation.HasField("capture"):
                await self._check_usage(operation.capture.usage, context)
            reserve = without_asking_again(operation.reserve)
            if self.holds.get(reserve.key, reserve) != reserve:
                # As the real one: a call is never made under such a key.
                await context.abort(grpc.StatusCode.ALREADY_EXISTS, f"KEY_REUSED: {reserve.key}")
        results = [self._apply(operation) for operation in request.operations]
        if any(operation.HasField("reserve") for operation in request.operations):
            await asyncio.sleep(self.delay_s)
        return ledger_pb.ApplyResponse(results=results)

    async def ReleaseEpisode(
        self, request: ledger_pb.ReleaseEpisodeRequest, context: Context
    ) -> ledger_pb.ReleaseEpisodeResponse:
        keys = {key for key in self.holds if key.startswith(request.episode_id)}
        keys -= set(self.captured) | self.released
        kept = {key for key in keys if request.keep_dispatched and self.holds[key].dispatched}
        self.released |= keys - kept
        return ledger_pb.ReleaseEpisodeResponse(kept_keys=sorted(kept))

    async def CreateBudget(
        self, request: budget_pb.CreateBudgetRequest, context: Context
    ) -> budget_pb.CreateBudgetResponse:
        self.budgets.append(request.budget)
        return budget_pb.CreateBudgetResponse(budget=request.budget)

    async def _check_usage(self, usage: usage_pb2.Usage, context: Context) -> None:
        """Rejects the whole transaction for a usage that the ledger cannot read."""
        try:
            usage_from_proto(usage)
        except InvalidUsage as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)

    def _apply(self, operation: ledger_pb.Operation) -> ledger_pb.OperationResult:
        if operation.HasField("reserve"):
            return ledger_pb.OperationResult(reserve=self._reserve(operation.reserve))
        if operation.HasField("release"):
            assert operation.release.key in self.holds, "a release without a hold"
            self.released.add(operation.release.key)
            return ledger_pb.OperationResult(release=ledger_pb.ReleaseResponse())
        return ledger_pb.OperationResult(capture=self._capture(operation.capture))

    def _reserve(self, request: ledger_pb.ReserveRequest) -> ledger_pb.ReserveResponse:
        known = self.holds.get(request.key)
        if self.reject_after is not None and len(self.holds) >= self.reject_after and not known:
            rejection = hold_pb2.Rejection(
                reason=hold_pb2.REJECTION_REASON_BUDGET_EXHAUSTED,
                message="budget b is used up",
                budget_id=self.rejecting_budget.format(episode=request.key.split("/")[0]),
            )
            return ledger_pb.ReserveResponse(rejection=rejection)
        if not known and self.open_max is not None and len(self.open()) >= self.open_max:
            rejection = hold_pb2.Rejection(
                reason=hold_pb2.REJECTION_REASON_BUDGET_HELD
                if request.asks_again
                else hold_pb2.REJECTION_REASON_BUDGET_EXHAUSTED,
                message="others hold what is left of budget b",
            )
            return ledger_pb.ReserveResponse(rejection=rejection)
        self.holds[request.key] = without_asking_again(request)
        self.open_seen = max(self.open_seen, len(self.open()))
        hold = hold_pb2.Hold(
            key=request.key, worst_case=request.worst_case, fallbacks=request.fallbacks
        )
        for quantity in hold.worst_case:
            if quantity.dimension == usage_pb2.USAGE_DIMENSION_OUTPUT_TEXT:
                most = self.output_tokens_max or int(quantity.amount)
                assert most >= request.min_output_tokens, "less than the call is worth"
                quantity.amount = str(min(most, int(quantity.amount)))
        return ledger_pb.ReserveResponse(hold=hold)

    def _capture(self, request: ledger_pb.CaptureRequest) -> ledger_pb.CaptureResponse:
        assert request.key in self.holds, "a capture without a hold"
        units = sum(Decimal(quantity.amount) for quantity in request.usage.quantities)
        amount = units * UNIT_PRICE
        assert self.captured.setdefault(request.key, amount) == amount, "two truths for a key"
        if request.HasField("answered_by"):
            self.answered_by[request.key] = request.answered_by
        if request.usage.unusable_reason:
            self.unpriced[request.key] = request.usage.unusable_reason
            return ledger_pb.CaptureResponse(entry=hold_pb2.Entry(key=request.key))
        money = money_pb2.Money(currency_code="USD", amount=f"{amount:f}")
        return ledger_pb.CaptureResponse(entry=hold_pb2.Entry(key=request.key, amount=money))


def without_asking_again(request: ledger_pb.ReserveRequest) -> ledger_pb.ReserveRequest:
    common = ledger_pb.ReserveRequest()
    common.CopyFrom(request)
    common.asks_again = False
    return common
