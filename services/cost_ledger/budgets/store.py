"""A trigger on budget windows raises alerts, which are pending until published."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from cost_ledger.budgets.models import (
    Budget,
    BudgetAlert,
    BudgetScope,
    BudgetStatus,
    BudgetWindow,
    CountedWindow,
    window_end,
)
from cost_ledger.budgets.raises import BudgetRaise
from cost_ledger.store_engine import set_scope, tenant_transaction
from podium_kit.money import Money

# Asks for its window at once: one whose time zone PostgreSQL does not know would fail every call.
ADD = text("""
    INSERT INTO budget (tenant, id, scope, scope_id, budget_window, rolling_length_s, time_zone,
                        currency, hard_limit, soft_limits, start_time, end_time,
                        soft_limit_shares)
    VALUES (:tenant, :id, :scope, :scope_id, :window, :rolling_length_s, :time_zone,
            :currency, :hard_limit, CAST(:soft_limits AS numeric[]), :start_time, :end_time,
            CAST(:soft_limit_shares AS numeric[]))
    ON CONFLICT DO NOTHING
    RETURNING window_start(budget, ledger_clock())
""")

STATUS = """
    SELECT b.*, span.start, used.posted, used.held, ledger_clock() AS read_time
    FROM budget b
    CROSS JOIN LATERAL (
        SELECT window_first(b, ledger_clock()) AS first,
               window_start(b, ledger_clock()) AS start
    ) span
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(w.posted), 0) AS posted, coalesce(sum(w.held), 0) AS held
        FROM budget_window w
        WHERE w.tenant = b.tenant AND w.budget_id = b.id
          AND w.start BETWEEN span.first AND span.start
    ) used
    WHERE b.tenant = :tenant
"""
ONE = text(STATUS + "AND b.id = :id")
# The platform names a budget after the run that it made it for.
PAGE = text(
    STATUS
    + """
    AND b.id > :after
    AND (CAST(:runs AS boolean) OR NOT (b.id ^@ 'episode/' OR b.id ^@ 'direct-call/'))
    ORDER BY b.id LIMIT :limit
"""
)

# With the limit of the last version before its end, and a raise that held then or holds now.
WINDOWS = text("""
    SELECT w.start, w.posted, w.held, version.hard_limit
    FROM budget b JOIN budget_window w ON (w.tenant, w.budget_id) = (b.tenant, b.id)
    CROSS JOIN LATERAL (
        SELECT CASE b.budget_window
            WHEN 'total' THEN NULL
            WHEN 'rolling' THEN w.start + interval '1 minute'
            ELSE (w.start AT TIME ZONE b.time_zone
                  + CAST('1 ' || b.budget_window AS interval)) AT TIME ZONE b.time_zone
        END AS until
    ) span
    CROSS JOIN LATERAL (
        SELECT v.hard_limit + CASE
            WHEN least(span.until, ledger_clock()) < v.raise_until THEN v.raise_amount ELSE 0
        END AS hard_limit
        FROM budget_version v
        WHERE v.tenant = b.tenant AND v.budget_id = b.id
          AND (v.version = 1 OR span.until IS NULL OR v.create_time < span.until)
        ORDER BY v.version DESC LIMIT 1
    ) version
    WHERE b.tenant = :tenant AND b.id = :id
      AND (CAST(:before AS timestamptz) IS NULL OR w.start < CAST(:before AS timestamptz))
    ORDER BY w.start DESC LIMIT :limit
""")

CLOSE = text("""
    UPDATE budget SET close_time = ledger_clock()
    WHERE tenant = :tenant AND id = :id AND close_time IS NULL
""")


OPEN_HEAD = text("INSERT INTO ledger_head (tenant) VALUES (:tenant) ON CONFLICT DO NOTHING")
LOCK_HEAD = text("SELECT lock_heads(ARRAY[CAST(:tenant AS text)])")
CLOCK = text("SELECT ledger_clock()")
UPDATE = text("""
    UPDATE budget
    SET hard_limit = :hard_limit, soft_limits = CAST(:soft_limits AS numeric[]),
        end_time = :end_time, version = :version,
        soft_limit_shares = CAST(:soft_limit_shares AS numeric[]), raise_id = :raise_id,
        raise_amount = CAST(:raise_amount AS numeric), raise_until = :raise_until,
        raise_reason = :raise_reason, raised_by = :raised_by
    WHERE tenant = :tenant AND id = :id
""")
# Alerts are raised when a window's row is written; this writes its newest as it is.
TOUCH = text("""
    UPDATE budget_window SET posted = posted
    WHERE tenant = :tenant AND budget_id = :id AND start = (
        SELECT max(w.start) FROM budget b
        JOIN budget_window w ON (w.tenant, w.budget_id) = (b.tenant, b.id)
        WHERE b.tenant = :tenant AND b.id = :id
          AND w.start BETWEEN window_first(b, ledger_clock()) AND window_start(b, ledger_clock())
    )
""")
CREATED = text("""
    SELECT hard_limit, soft_limits, end_time, soft_limit_shares FROM budget_version
    WHERE tenant = :tenant AND budget_id = :id AND version = 1
""")
MADE_RAISE = text("""
    SELECT * FROM budget_version
    WHERE tenant = :tenant AND budget_id = :id AND raise_id = :raise_id
    ORDER BY version LIMIT 1
""")


IS_PRICED = text("""
    SELECT EXISTS (
        SELECT FROM price_version WHERE tenant IN ('', :tenant) AND currency = :currency
    )
""")
PRICED = text("""
    SELECT DISTINCT currency FROM price_version WHERE tenant IN ('', :tenant) ORDER BY currency
""")
ALERT = """
    SELECT a.sequence, a.tenant, a.budget_id, a.start, a.soft_limit, a.posted, a.create_time,
           a.publish_time, a.hard_limit, a.share, b.currency
    FROM budget_alert a JOIN budget b ON (b.tenant, b.id) = (a.tenant, a.budget_id)
"""


class BudgetStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def add(self, budget: Budget) -> None:
        """Adds the budget unless its id exists."""
        await self._execute(
            ADD,
            tenant=budget.tenant,
            id=budget.id,
            scope=budget.scope,
            # One index finds every covering budget, so a named one is found by its own id.
            scope_id=budget.id if budget.scope is BudgetScope.NAMED else budget.scope_id,
            window=budget.window,
            rolling_length_s=budget.rolling_length_s,
            time_zone=budget.time_zone,
            currency=budget.hard_limit.currency_code,
            hard_limit=budget.hard_limit.amount,
            soft_limits=[limit.amount for limit in budget.soft_limits],
            start_time=budget.start_time,
            end_time=budget.end_time,
            soft_limit_shares=list(budget.soft_limit_shares),
        )

    async def other_currencies(self, tenant: str, currency_code: str) -> list[str]:
        """Currencies of the tenant's prices; empty where one is in the given currency."""
        values = {"tenant": tenant, "currency": currency_code}
        async with tenant_transaction(self._engine, tenant) as connection:
            if (await connection.execute(IS_PRICED, values)).scalar_one():
                return []
            return list((await connection.execute(PRICED, values)).scalars())

    async def windows(
        self, budget: Budget, before: datetime | None, limit: int
    ) -> list[CountedWindow]:
        values = {"tenant": budget.tenant, "id": budget.id, "before": before, "limit": limit}
        code = budget.hard_limit.currency_code
        async with tenant_transaction(self._engine, budget.tenant) as connection:
            rows = (await connection.execute(WINDOWS, values)).all()
        return [
            CountedWindow(
                row.start,
                window_end(budget, row.start),
                Money(row.posted, code),
                Money(row.held, code),
                Money(row.hard_limit, code),
            )
            for row in rows
        ]

    async def close(self, tenant: str, budget_id: str) -> None:
        """Ends the budget; once closed it stays closed at its first time."""
        await self._execute(CLOSE, tenant=tenant, id=budget_id)

    async def as_created(self, budget: Budget) -> Budget:
        if budget.version == 1:
            return budget
        values = {"tenant": budget.tenant, "id": budget.id}
        async with tenant_transaction(self._engine, budget.tenant) as connection:
            row = (await connection.execute(CREATED, values)).one()
        code = budget.hard_limit.currency_code
        return replace(
            budget,
            hard_limit=Money(row.hard_limit, code),
            soft_limits=tuple(Money(amount, code) for amount in row.soft_limits),
            end_time=row.end_time,
            soft_limit_shares=tuple(row.soft_limit_shares),
            raised=None,
        )

    @asynccontextmanager
    async def changing(
        self, tenant: str, budget_id: str
    ) -> AsyncIterator["BudgetBeingChanged | None"]:
        """Yields the budget under the lock of the tenant's journal; None when there is none.

        The lock is that of every entry, so each entry is decided by one version.
        """
        async with tenant_transaction(self._engine, tenant) as connection:
            await connection.execute(OPEN_HEAD, {"tenant": tenant})
            await connection.execute(LOCK_HEAD, {"tenant": tenant})
            now = (await connection.execute(CLOCK)).scalar_one()
            values = {"tenant": tenant, "id": budget_id}
            row = (await connection.execute(ONE, values)).one_or_none()
            yield BudgetBeingChanged(connection, _status(row).budget, now) if row else None

    async def status(self, tenant: str, budget_id: str) -> BudgetStatus | None:
        values = {"tenant": tenant, "id": budget_id}
        async with tenant_transaction(self._engine, tenant) as connection:
            row = (await connection.execute(ONE, values)).one_or_none()
        return _status(row) if row else None

    async def page(self, tenant: str, after: str, limit: int, runs: bool) -> list[BudgetStatus]:
        values = {"tenant": tenant, "after": after, "limit": limit, "runs": runs}
        async with tenant_transaction(self._engine, tenant) as connection:
            return [_status(row) for row in await connection.execute(PAGE, values)]

    async def _execute(self, statement: Any, tenant: str, **values: object) -> None:
        async with tenant_transaction(self._engine, tenant) as connection:
            await connection.execute(statement, {"tenant": tenant, **values})


@dataclass(frozen=True)
class BudgetBeingChanged:
    connection: AsyncConnection
    budget: Budget
    now: datetime

    async def write(self, changed: Budget) -> None:
        """Stores the next version, and raises the alerts of soft limits passed already."""
        values = {
            "tenant": changed.tenant,
            "id": changed.id,
            "hard_limit": changed.hard_limit.amount,
            "soft_limits": [limit.amount for limit in changed.soft_limits],
            "end_time": changed.end_time,
            "version": changed.version,
            "soft_limit_shares": list(changed.soft_limit_shares),
            **_raise_values(changed.raised),
        }
        await self.connection.execute(UPDATE, values)
        await self.connection.execute(TOUCH, {"tenant": changed.tenant, "id": changed.id})

    async def made_raise(self, raise_id: str) -> BudgetRaise | None:
        """Returns the raise of that id, also one that is over or was replaced."""
        budget = self.budget
        values = {"tenant": budget.tenant, "id": budget.id, "raise_id": raise_id}
        row = (await self.connection.execute(MADE_RAISE, values)).one_or_none()
        return _raise(row, budget.hard_limit.currency_code) if row else None


def _raise_values(raised: BudgetRaise | None) -> dict[str, object]:
    return {
        "raise_id": raised and raised.id,
        "raise_amount": raised and raised.amount.amount,
        "raise_until": raised and raised.until,
        "raise_reason": raised and raised.reason,
        "raised_by": raised and raised.by,
    }


def _raise(row: Any, currency_code: str) -> BudgetRaise | None:
    if row.raise_id is None:
        return None
    return BudgetRaise(
        row.raise_id,
        Money(row.raise_amount, currency_code),
        row.raise_until,
        row.raise_reason,
        row.raised_by,
    )


def _status(row: Any) -> BudgetStatus:
    scope = BudgetScope(row.scope)
    budget = Budget(
        tenant=row.tenant,
        id=row.id,
        scope=scope,
        scope_id="" if scope is BudgetScope.NAMED else row.scope_id,
        window=BudgetWindow(row.budget_window),
        rolling_length_s=row.rolling_length_s,
        time_zone=row.time_zone,
        hard_limit=Money(row.hard_limit, row.currency),
        soft_limits=tuple(Money(amount, row.currency) for amount in row.soft_limits),
        start_time=row.start_time,
        end_time=row.end_time,
        create_time=row.create_time,
        close_time=row.close_time,
        version=row.version,
        soft_limit_shares=tuple(row.soft_limit_shares),
        raised=_raise(row, row.currency),
    )
    return BudgetStatus(budget, row.start, row.posted, row.held, row.read_time)


ALERTS = text(
    ALERT
    + """
    WHERE a.tenant = :tenant AND (:budget_id = '' OR a.budget_id = :budget_id)
      AND a.sequence < :before
    ORDER BY a.sequence DESC LIMIT :limit
    """
)

# Any tenant's; another replica takes other alerts instead of waiting for these.
PENDING = text("SELECT tenant, sequence FROM owed_alerts(:limit)")

BY_SEQUENCE = text(
    ALERT
    + """
    WHERE a.sequence = ANY(CAST(:sequences AS bigint[])) ORDER BY a.sequence
    """
)

PUBLISHED = text("""
    UPDATE budget_alert SET publish_time = ledger_clock()
    WHERE sequence = ANY(CAST(:sequences AS bigint[]))
""")


class AlertStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def page(self, tenant: str, budget_id: str, before: int, limit: int) -> list[BudgetAlert]:
        values = {"tenant": tenant, "budget_id": budget_id, "before": before, "limit": limit}
        async with tenant_transaction(self._engine, tenant) as connection:
            return [_alert(row) for row in await connection.execute(ALERTS, values)]

    @asynccontextmanager
    async def publishing(self, limit: int) -> AsyncIterator[list[BudgetAlert]]:
        """The oldest pending alerts, locked; published when the block ends without an error."""
        async with tenant_transaction(self._engine) as connection:
            pending = (await connection.execute(PENDING, {"limit": limit})).all()
            await set_scope(connection, {row.tenant for row in pending})
            sequences = {"sequences": [row.sequence for row in pending]}
            yield [_alert(row) for row in await connection.execute(BY_SEQUENCE, sequences)]
            await connection.execute(PUBLISHED, sequences)


def _alert(row: Any) -> BudgetAlert:
    hard_limit = Money(row.hard_limit, row.currency)
    amount = Money(row.soft_limit, row.currency)
    return BudgetAlert(
        sequence=row.sequence,
        tenant=row.tenant,
        budget_id=row.budget_id,
        window_start=row.start,
        soft_limit=(hard_limit * row.share).quantized() if row.share else amount,
        posted=Money(row.posted, row.currency),
        hard_limit=hard_limit,
        create_time=row.create_time,
        publish_time=row.publish_time,
        share=row.share,
    )
