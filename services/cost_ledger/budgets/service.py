from dataclasses import replace
from datetime import UTC, datetime

from cost_ledger.budgets.models import (
    Budget,
    BudgetAlert,
    BudgetChange,
    BudgetScope,
    BudgetStatus,
    CountedWindow,
)
from cost_ledger.budgets.raises import BudgetRaise
from cost_ledger.budgets.store import AlertStore, BudgetStore
from cost_ledger.errors import (
    BudgetConflict,
    BudgetNotFound,
    InvalidBudget,
    RaiseReused,
    UnpricedCurrency,
)
from podium_kit.rpc.identity import Scope, current_identity, require_scope

# What the ids of named budgets begin with that an episode shares with the episodes it calls.
EPISODE_PREFIX = "episode/"
# What the ids of budgets begin with that the platform sets for a tenant.
PLATFORM_PREFIX = "platform:"


def require_budget_write(budget: Budget) -> None:
    """Allows the episodes service to write the budgets of episodes, and no others.

    A budget that the platform sets is its admin's alone. Every budget that this admin sets for
    another tenant is one: the tenant's admin could remove any other.
    """
    if budget.id.startswith(PLATFORM_PREFIX):
        require_scope(Scope.PLATFORM_ADMIN)
        return
    if budget.tenant != current_identity().tenant:
        raise InvalidBudget(
            f"the id of a budget for another tenant begins with {PLATFORM_PREFIX}, or its admin "
            f"could change it: use {PLATFORM_PREFIX}{budget.id}"
        )
    shared = budget.scope is BudgetScope.NAMED and budget.id.startswith(EPISODE_PREFIX)
    if budget.scope is not BudgetScope.EPISODE and not shared:
        require_scope(Scope.TENANT_ADMIN, Scope.LEDGER_WRITE)


class BudgetBook:
    def __init__(self, store: BudgetStore, alerts: AlertStore) -> None:
        self._store = store
        self._alerts = alerts

    async def create(self, budget: Budget) -> BudgetStatus:
        """Returns the stored budget. Raises BudgetConflict for an id with other content,
        BudgetEnded, UnpricedCurrency."""
        if await self._store.status(budget.tenant, budget.id) is None:
            budget.check_not_past(datetime.now(UTC))
            currency = budget.hard_limit.currency_code
            if priced := await self._store.other_currencies(budget.tenant, currency):
                raise UnpricedCurrency(currency, priced)
            await self._store.add(budget)
        status = await self.status(budget.tenant, budget.id)
        stored = status.budget
        # A closed budget limits nothing, so creating it again is an error.
        stored.check_open(datetime.now(UTC))
        created = replace(await self._store.as_created(stored), create_time=None, close_time=None)
        if replace(created, version=budget.version) != budget:
            raise BudgetConflict(budget.id)
        return status

    async def status(self, tenant: str, budget_id: str) -> BudgetStatus:
        status = await self._store.status(tenant, budget_id)
        if status is None:
            raise BudgetNotFound(budget_id)
        return status

    async def page(self, tenant: str, after: str, limit: int, runs: bool) -> list[BudgetStatus]:
        return await self._store.page(tenant, after, limit, runs)

    async def windows(
        self, tenant: str, budget_id: str, before: datetime | None, limit: int
    ) -> list[CountedWindow]:
        """Windows in which money was counted, newest first."""
        budget = (await self.status(tenant, budget_id)).budget
        return await self._store.windows(budget, before, limit)

    async def update(self, change: BudgetChange) -> BudgetStatus:
        async with self._store.changing(change.tenant, change.budget_id) as changing:
            if changing is None:
                raise BudgetNotFound(change.budget_id)
            changed = change.applied_to(changing.budget, changing.now)
            if changed != changing.budget:
                await changing.write(changed)
        return await self.status(change.tenant, change.budget_id)

    async def raise_limit(self, tenant: str, budget_id: str, raised: BudgetRaise) -> BudgetStatus:
        """Replaces the raise before; a retry changes nothing, also after the end.

        Raises BudgetNotFound, BudgetEnded, RaiseReused and InvalidBudget.
        """
        async with self._store.changing(tenant, budget_id) as changing:
            if changing is None:
                raise BudgetNotFound(budget_id)
            made = await changing.made_raise(raised.id)
            if made is None:
                await changing.write(changing.budget.with_raise(raised, changing.now))
            elif replace(made, by=raised.by) != raised:
                raise RaiseReused(budget_id, raised.id)
        return await self.status(tenant, budget_id)

    async def close(self, tenant: str, budget_id: str) -> BudgetStatus:
        await self._store.close(tenant, budget_id)
        return await self.status(tenant, budget_id)

    async def alerts(
        self, tenant: str, budget_id: str, before: int, limit: int
    ) -> list[BudgetAlert]:
        """Soft limits that were passed, newest first; an empty id means any budget's."""
        return await self._alerts.page(tenant, budget_id, before, limit)
