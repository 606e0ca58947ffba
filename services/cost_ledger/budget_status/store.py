from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit

STATUS = text("SELECT * FROM ledger_standing()")
NEARLY_SPENT = text("SELECT * FROM nearly_spent_budgets(:share, :count_max)")


@dataclass(frozen=True, slots=True)
class LedgerStatus:
    overdue_s: float
    """Since the oldest open hold should have ended; 0: none is overdue."""
    untied_tenants: int
    """Tenants whose balances contradict each other or their open holds."""
    unpublished_s: float
    """Age of the oldest alert that no topic has; 0: none."""


@dataclass(frozen=True, slots=True)
class UsedBudget:
    tenant: str
    budget_id: str
    share: Decimal


class LedgerStatusStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def status(self) -> LedgerStatus:
        async with autocommit(self._engine) as connection:
            row = (await connection.execute(STATUS)).one()
        return LedgerStatus(row.overdue_s, row.untied_tenants, row.owed_s)

    async def nearly_spent(self, share: Decimal, count_max: int) -> list[UsedBudget]:
        asked = {"share": share, "count_max": count_max}
        async with autocommit(self._engine) as connection:
            rows = (await connection.execute(NEARLY_SPENT, asked)).all()
        return [UsedBudget(row.tenant, row.budget_id, row.share) for row in rows]
