"""Budgets: hard limits, and alerts before them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from podium_client._async.pages import AsyncPages
from podium_client._async.transport import AsyncTransport, required
from podium_client.ids import new_id
from podium_client.models import (
    Budget,
    BudgetAlert,
    BudgetStatus,
    CloseBudgetResponse,
    CreateBudgetRequest,
    CreateBudgetResponse,
    GetBudgetResponse,
    ListAlertsResponse,
    ListBudgetsResponse,
    RaiseBudgetRequest,
    RaiseBudgetResponse,
    UpdateBudgetRequest,
    UpdateBudgetResponse,
)
from podium_client.orders import Amount, money
from podium_client.wire import path

BUDGET = "/v1/budgets/{id}"
Window = Literal["total", "day", "week", "month"]


class AsyncBudgets:
    """Limits on spending."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(
        self,
        budget_id: str,
        limit: Amount,
        *,
        window: Window = "month",
        alert_at: Sequence[Amount] = (),
    ) -> Budget:
        """A budget of the whole tenant; `add` takes every other kind."""
        return await self.add(
            Budget(
                id=budget_id,
                scope="BUDGET_SCOPE_TENANT",
                window=f"BUDGET_WINDOW_{window.upper()}",
                hard_limit=money(limit),
                soft_limits=[money(each) for each in alert_at],
            )
        )

    async def add(self, budget: Budget) -> Budget:
        """The same id and content again is the same budget."""
        body = CreateBudgetRequest(budget=budget)
        reply = await self._transport.call("POST", "/v1/budgets", CreateBudgetResponse, body=body)
        return required(reply.budget)

    async def get(self, budget_id: str) -> BudgetStatus:
        """A budget, and what its window holds now."""
        address = path(BUDGET, id=budget_id)
        return required((await self._transport.call("GET", address, GetBudgetResponse)).status)

    def list(self, *, page_size: int = 0) -> AsyncPages[BudgetStatus]:
        """Lists budgets in the order of their ids."""
        return self._transport.pages(
            "/v1/budgets",
            ListBudgetsResponse,
            lambda page: (page.statuses, page.next_page_token),
            {"page_size": page_size},
        )

    async def update(
        self,
        budget_id: str,
        *,
        limit: Amount | None = None,
        alert_at: Sequence[Amount] | None = None,
        end_time: datetime | None = None,
        version: int = 0,
    ) -> Budget:
        """Changes what is given. With a `version`, only if no one changed it meanwhile."""
        body = UpdateBudgetRequest(version=version)
        changed = []
        if limit is not None:
            changed.append("hard_limit")
            body.hard_limit = money(limit)
        if alert_at is not None:
            changed.append("soft_limits")
            body.soft_limits = [money(each) for each in alert_at]
        if end_time is not None:
            changed.append("end_time")
            body.end_time = end_time
        body.update_mask = ",".join(changed)
        reply = await self._transport.call(
            "PATCH", path(BUDGET, id=budget_id), UpdateBudgetResponse, body=body
        )
        return required(reply.budget)

    async def raise_limit(
        self,
        budget_id: str,
        amount: Amount,
        *,
        until: datetime | None,
        reason: str,
        raise_id: str = "",
    ) -> Budget:
        """Adds an amount to the hard limit until a time; 0, which has none, ends the raise before.

        A `raise_id` (UUIDv7) that was sent before is the same raise.
        """
        body = RaiseBudgetRequest(
            raise_id=raise_id or new_id(), amount=money(amount), end_time=until, reason=reason
        )
        address = path(BUDGET + "/raise", id=budget_id)
        reply = await self._transport.call("POST", address, RaiseBudgetResponse, body=body)
        return required(reply.budget)

    async def close(self, budget_id: str) -> Budget:
        """It decides no further call."""
        address = path(BUDGET + "/close", id=budget_id)
        reply = await self._transport.call("POST", address, CloseBudgetResponse, body={})
        return required(reply.budget)

    def alerts(self, budget_id: str = "", *, page_size: int = 0) -> AsyncPages[BudgetAlert]:
        """Soft limits that were passed, newest first."""
        return self._transport.pages(
            "/v1/budget-alerts",
            ListAlertsResponse,
            lambda page: (page.alerts, page.next_page_token),
            {"budget_id": budget_id, "page_size": page_size},
        )
