from typing import Any

import grpc

from cost_ledger.access import tenant_named
from cost_ledger.budgets.convert import (
    alert_to_proto,
    before_from_token,
    budget_from_proto,
    budget_to_proto,
    change_from_proto,
    next_alerts_page,
    next_windows_page,
    raise_from_proto,
    status_to_proto,
    window_from_token,
    window_to_proto,
)
from cost_ledger.budgets.models import BudgetStatus
from cost_ledger.budgets.service import BudgetBook, require_budget_write
from podium.ledger.v1 import budget_service_pb2 as pb
from podium.ledger.v1 import budget_service_pb2_grpc as rpc
from podium_kit.rpc.identity import current_identity
from podium_kit.rpc.pages import decode_page_token, encode_page_token, page_size

Context = grpc.aio.ServicerContext[Any, Any]


class BudgetServicer(rpc.BudgetServiceServicer):
    def __init__(self, budgets: BudgetBook) -> None:
        self._budgets = budgets

    async def CreateBudget(
        self, request: pb.CreateBudgetRequest, context: Context
    ) -> pb.CreateBudgetResponse:
        budget = budget_from_proto(request.budget, tenant_named(request.tenant))
        require_budget_write(budget)
        return pb.CreateBudgetResponse(budget=_budget(await self._budgets.create(budget)))

    async def GetBudget(
        self, request: pb.GetBudgetRequest, context: Context
    ) -> pb.GetBudgetResponse:
        status = await self._budgets.status(tenant_named(request.tenant), request.id)
        return pb.GetBudgetResponse(status=status_to_proto(status))

    async def ListBudgets(
        self, request: pb.ListBudgetsRequest, context: Context
    ) -> pb.ListBudgetsResponse:
        limit = page_size(request.page_size, 50, 500)
        after = decode_page_token(request.page_token).get("after", "")
        statuses = await self._budgets.page(
            tenant_named(request.tenant), after, limit, request.include_runs
        )
        more = len(statuses) == limit
        return pb.ListBudgetsResponse(
            statuses=[status_to_proto(status) for status in statuses],
            next_page_token=encode_page_token({"after": statuses[-1].budget.id}) if more else "",
        )

    async def ListBudgetWindows(
        self, request: pb.ListBudgetWindowsRequest, context: Context
    ) -> pb.ListBudgetWindowsResponse:
        limit = page_size(request.page_size, 50, 500)
        before = window_from_token(request.page_token)
        windows = await self._budgets.windows(
            tenant_named(request.tenant), request.id, before, limit
        )
        return pb.ListBudgetWindowsResponse(
            windows=[window_to_proto(window) for window in windows],
            next_page_token=next_windows_page(windows, limit),
        )

    async def UpdateBudget(
        self, request: pb.UpdateBudgetRequest, context: Context
    ) -> pb.UpdateBudgetResponse:
        change = change_from_proto(request, tenant_named(request.tenant))
        status = await self._budgets.status(change.tenant, change.budget_id)
        require_budget_write(status.budget)
        return pb.UpdateBudgetResponse(budget=_budget(await self._budgets.update(change)))

    async def RaiseBudget(
        self, request: pb.RaiseBudgetRequest, context: Context
    ) -> pb.RaiseBudgetResponse:
        tenant = tenant_named(request.tenant)
        raised = raise_from_proto(request, current_identity().subject)
        status = await self._budgets.status(tenant, request.id)
        require_budget_write(status.budget)
        return pb.RaiseBudgetResponse(
            budget=_budget(await self._budgets.raise_limit(tenant, request.id, raised))
        )

    async def CloseBudget(
        self, request: pb.CloseBudgetRequest, context: Context
    ) -> pb.CloseBudgetResponse:
        tenant = tenant_named(request.tenant)
        status = await self._budgets.status(tenant, request.id)
        require_budget_write(status.budget)
        return pb.CloseBudgetResponse(budget=_budget(await self._budgets.close(tenant, request.id)))

    async def ListAlerts(
        self, request: pb.ListAlertsRequest, context: Context
    ) -> pb.ListAlertsResponse:
        limit = page_size(request.page_size, 50, 500)
        before = before_from_token(request.page_token)
        alerts = await self._budgets.alerts(
            tenant_named(request.tenant), request.budget_id, before, limit
        )
        return pb.ListAlertsResponse(
            alerts=[alert_to_proto(alert) for alert in alerts],
            next_page_token=next_alerts_page(alerts, limit),
        )


def _budget(status: BudgetStatus) -> pb.Budget:
    return budget_to_proto(status.budget, status.read_time)
