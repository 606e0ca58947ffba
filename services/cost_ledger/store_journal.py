"""The journal's hot path: lock the tenants, read, write; four statements for a whole group.

The lock on a tenant's head row orders its writers, also those of other replicas, so
what is read after it is the truth until the commit. Every statement takes its rows
as one JSON array: its text never changes, whatever the size of the group.
"""

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from cost_ledger.admission import scope_asks
from cost_ledger.books import Books, Rows
from cost_ledger.budgets import BudgetScope, ScopeAsk, Standing
from cost_ledger.models import BudgetWindowKey, Hold
from cost_ledger.operations import Batch, Operation, Record, Reserve
from cost_ledger.store_engine import database_errors
from cost_ledger.store_journal_sql import ADD_HEADS, LOCK_HEADS, READ, STANDINGS, WRITE
from cost_ledger.store_rows import (
    answer_from_row,
    answer_row,
    entry_from_row,
    entry_row,
    hold_from_row,
    hold_row,
    to_json,
)
from money import Money


class JournalStore:
    """Opens a group: its books under lock, written when the block ends."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def books(self, batches: list[Batch]) -> AsyncIterator[Books]:
        """The books of the batches; what was accepted in them is committed at the end.

        Raises LedgerUnavailable (whether it was kept shows on retry) or JournalRejected.
        """
        operations = [operation for batch in batches for operation in batch]
        with database_errors():
            async with self._engine.begin() as connection:
                books = await self._read(connection, operations)
                yield books
                if books.written.heads or books.written.answers:
                    await _write(connection, books)

    async def _read(self, connection: AsyncConnection, operations: list[Operation]) -> Books:
        heads = await _lock_heads(connection, {operation.tenant for operation in operations})
        books = await _read_keys(connection, operations)
        books.loaded.heads = heads
        asks = _asks(operations, books.now)
        if asks:
            books.standings = await _read_standings(connection, asks)
        return books


async def _lock_heads(connection: AsyncConnection, tenants: set[str]) -> dict[str, int]:
    names = {"tenants": sorted(tenants)}
    heads = (await connection.execute(LOCK_HEADS, names)).all()
    if len(heads) < len(tenants):
        await connection.execute(ADD_HEADS, names)
        heads = (await connection.execute(LOCK_HEADS, names)).all()
    return {head.tenant: head.sequence for head in heads}


async def _read_keys(connection: AsyncConnection, operations: Iterable[Operation]) -> Books:
    asked = {_key_row(operation) for operation in operations}
    names = ("tenant", "operation", "key", "sequence")
    rows = to_json(dict(zip(names, row, strict=True)) for row in asked)
    result = (await connection.execute(READ, {"asked": rows})).all()
    books = Books(now=result[0].now, loaded=Rows())
    for row in result:
        _add_loaded(books.loaded, row)
    return books


def _key_row(operation: Operation) -> tuple[str, str, str, int]:
    return operation.tenant, operation.name, operation.key, getattr(operation, "sequence", 0)


def _add_loaded(rows: Rows, row: Any) -> None:
    if row.answer:
        rows.answers[row.tenant, row.operation, row.key] = answer_from_row(_parsed(row.answer))
    if row.hold:
        hold = hold_from_row(_parsed(row.hold))
        rows.holds[row.tenant, hold.call.key] = hold
    if row.entry:
        entry = entry_from_row(_parsed(row.entry))
        rows.entries[row.tenant, entry.sequence] = entry
    if row.corrected:
        rows.corrected.add((row.tenant, row.sequence))


def _asks(operations: Iterable[Operation], now: datetime) -> set[ScopeAsk]:
    asks: set[ScopeAsk] = set()
    for operation in operations:
        match operation:
            case Reserve(tenant=tenant, subject=subject, budget_ids=budget_ids):
                asks.update(scope_asks(tenant, subject, budget_ids, now))
            case Record(tenant=tenant, subject=subject, occur_time=occur_time):
                asks.update(scope_asks(tenant, subject, (), occur_time or now))
    return asks


async def _read_standings(
    connection: AsyncConnection, asks: set[ScopeAsk]
) -> dict[ScopeAsk, list[Standing]]:
    rows = to_json(
        {"tenant": ask.tenant, "scope": ask.scope, "scope_id": ask.scope_id, "at": ask.at}
        for ask in asks
    )
    standings: defaultdict[ScopeAsk, list[Standing]] = defaultdict(list)
    for row in (await connection.execute(STANDINGS, {"asked": rows})).all():
        ask = ScopeAsk(row.tenant, BudgetScope(row.scope), row.scope_id, row.at)
        standings[ask].append(_standing(row))
    return standings


def _standing(row: Any) -> Standing:
    limit = Money(row.hard_limit, row.currency)
    return Standing(
        row.tenant, row.id, limit, row.first, row.start, row.used, row_exists=row.row_exists
    )


async def _write(connection: AsyncConnection, books: Books) -> None:
    written = books.written
    new = {key: hold for key, hold in written.holds.items() if key not in books.loaded.holds}
    changed = {key: hold for key, hold in written.holds.items() if key in books.loaded.holds}
    opened, moved = _window_rows(books)
    await connection.execute(
        WRITE,
        {
            "heads": to_json({"tenant": t, "sequence": n} for t, n in written.heads.items()),
            "entries": to_json(map(entry_row, written.entries.values())),
            "holds": to_json(map(hold_row, new.values())),
            "changed_holds": to_json(map(_state_row, changed.values())),
            "answers": to_json(answer_row(*key, it) for key, it in written.answers.items()),
            "opened_windows": to_json(opened),
            "moved_windows": to_json(moved),
        },
    )


def _state_row(hold: Hold) -> dict[str, Any]:
    return {
        "tenant": hold.call.tenant,
        "key": hold.call.key,
        "state": hold.state,
        "posted_sequence": hold.posted_sequence,
    }


def _window_rows(books: Books) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Windows that get their first row, and windows whose row is added to."""
    missing = {
        (standing.tenant, standing.budget_id, standing.start)
        for found in books.standings.values()
        for standing in found
        if not standing.row_exists
    }
    opened: list[dict[str, Any]] = []
    moved: list[dict[str, Any]] = []
    for key, move in books.written.moves.items():
        row = {**_window_row(key), "posted": move.posted, "held": move.held}
        is_new = (key.tenant, key.budget_id, key.start) in missing
        (opened if is_new else moved).append(row)
    return opened, moved


def _window_row(key: BudgetWindowKey) -> dict[str, Any]:
    return {"tenant": key.tenant, "budget_id": key.budget_id, "start": key.start}


def _parsed(row: str) -> Any:
    return json.loads(row, parse_float=Decimal)
