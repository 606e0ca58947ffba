from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from cost_ledger.budgets.convert import budget_from_proto, change_from_proto
from cost_ledger.budgets.models import Budget, BudgetScope, BudgetStatus, BudgetWindow
from cost_ledger.budgets.service import BudgetBook
from cost_ledger.budgets.store import BudgetStore
from cost_ledger.budgets.store_alerts import AlertStore
from cost_ledger.errors import BudgetEnded, InvalidBudget, InvalidOperation
from podium.common.v1 import money_pb2
from podium.ledger.v1 import budget_service_pb2 as pb
from podium_kit.money import Money

CAP = Budget(
    "acme", "cap", BudgetScope.TENANT, "", BudgetWindow.TOTAL, 0.0, "UTC", Money(Decimal(5), "USD")
)


class BudgetsInMemory(BudgetStore):
    def __init__(self) -> None:
        self.budgets: dict[str, Budget] = {}

    async def add(self, budget: Budget) -> None:
        self.budgets[budget.id] = replace(budget, create_time=datetime.now(UTC), version=1)

    async def status(self, tenant: str, budget_id: str) -> BudgetStatus | None:
        budget = self.budgets.get(budget_id)
        if budget is None or budget.create_time is None:
            return None
        return BudgetStatus(budget, budget.create_time, Decimal(0), Decimal(0))

    async def other_currencies(self, tenant: str, currency_code: str) -> list[str]:
        return []

    async def close(self, tenant: str, budget_id: str) -> None:
        self.budgets[budget_id] = replace(self.budgets[budget_id], close_time=datetime.now(UTC))


@pytest.fixture
def book() -> BudgetBook:
    return BudgetBook(BudgetsInMemory(), cast(AlertStore, None))


async def test_a_closed_budget_is_not_created_again_as_if_it_held(book: BudgetBook) -> None:
    first = await book.create(CAP)
    assert await book.create(CAP) == first
    await book.close("acme", "cap")
    with pytest.raises(BudgetEnded, match="cap is closed; create one of another id"):
        await book.create(CAP)


async def test_a_budget_that_is_over_is_not_created_again() -> None:
    over = replace(CAP, end_time=datetime.now(UTC) - timedelta(days=1))
    store = BudgetsInMemory()
    await store.add(over)
    with pytest.raises(BudgetEnded, match="cap is over since"):
        await BudgetBook(store, cast(AlertStore, None)).create(over)


@pytest.mark.parametrize("name", ["localtime", "Mars/Olympus", ""])
def test_a_time_zone_that_is_not_the_same_everywhere_is_rejected(name: str) -> None:
    with pytest.raises(InvalidBudget, match="no IANA zone"):
        replace(CAP, time_zone=name)


def test_a_budget_has_no_more_soft_limits_and_no_longer_scope_than_the_ledger_can_bear() -> None:
    limits = [money_pb2.Money(currency_code="USD", amount="1")] * 51
    mask = FieldMask(paths=["soft_limits"])
    with pytest.raises(InvalidBudget, match="51 soft limits; give at most 50"):
        change_from_proto(pb.UpdateBudgetRequest(soft_limits=limits, update_mask=mask), "acme")
    kind: dict[str, Any] = {
        "scope": pb.BUDGET_SCOPE_USER,
        "window": pb.BUDGET_WINDOW_DAY,
        "hard_limit": limits[0],
    }
    with pytest.raises(InvalidBudget, match="51 soft limits; give at most 50"):
        budget_from_proto(pb.Budget(id="cap", soft_limits=limits, **kind), "acme")
    with pytest.raises(InvalidOperation, match="scope_id has more than 500 characters"):
        budget_from_proto(pb.Budget(id="cap", scope_id="u" * 501, **kind), "acme")
