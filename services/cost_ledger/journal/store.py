"""The journal's hot path: one round trip reads, one writes, whatever the group.

Nothing is locked in between: the write names what was read of each tenant's head and fails when
another writer moved it, so what is written was decided by the truth (ADR 54). A group that lost
is decided once more under the heads' locks. This is the one store on the bare driver: what
SQLAlchemy adds to a statement was most of what a statement cost here.
"""

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import asyncpg

from cost_ledger.budgets.models import BudgetScope, ScopeQuery, WindowStatus
from cost_ledger.journal.store_rows import (
    entry_from_row,
    head_from_row,
    hold_from_record,
    idempotency_record_from_row,
    moment,
)
from cost_ledger.journal.store_statements import (
    READ_BOOKS,
    READ_BOOKS_UNDER_LOCK,
    READ_ENTRIES,
)
from cost_ledger.journal.store_writes import write
from cost_ledger.models import HoldState
from cost_ledger.posting.admission import queries_of_reserve, scope_queries
from cost_ledger.posting.batches import Batch, Operation
from cost_ledger.posting.books import Books, Corrections, Rows
from cost_ledger.posting.drafts import Keyed, answer_of
from cost_ledger.posting.operations import (
    Adjust,
    Capture,
    ClosePeriod,
    Dispatch,
    Expire,
    Record,
    Release,
    Reserve,
    Settle,
)
from cost_ledger.store_engine import journal_errors, parsed, to_json
from podium_kit.money import Money

Connection = Any  # asyncpg.Connection, or what its pool lends in its place
Decided = TypeVar("Decided")
Decide = Callable[[Books], Awaitable[Decided]]

OF_A_HOLD = (Capture, Dispatch, Expire, Release)
WITHOUT_HOLD = (Adjust, ClosePeriod, Record)
# Another replica writes to the same tenants: for so long, waiting is cheaper than losing.
LOCKED_AFTER_LOSING_S = 1.0
# Another writer moved a head, wrote the same key, or waited for a row that this one has.
LOST = (
    asyncpg.SerializationError,
    asyncpg.UniqueViolationError,
    asyncpg.DeadlockDetectedError,
)


class JournalStore:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._locked_until = 0.0

    async def commit(self, batches: list[Batch], decide: Decide[Decided]) -> tuple[Books, Decided]:
        """Returns the committed books and the outcome of `decide`, which may be called twice.

        Raises DatabaseUnavailable (a retry shows whether it was stored) or JournalRejected.
        """
        operations = [operation for batch in batches for operation in batch]
        with journal_errors():
            async with self._pool.acquire() as connection:
                if time.monotonic() >= self._locked_until:
                    try:
                        return await _at_once(connection, operations, decide)
                    except _LockNeeded:
                        pass
                    except LOST:
                        self._locked_until = time.monotonic() + LOCKED_AFTER_LOSING_S
                return await _under_lock(connection, operations, decide)


class _LockNeeded(Exception):
    """One snapshot does not show all rows of the group."""


async def _at_once(
    connection: Connection, operations: list[Operation], decide: Decide[Decided]
) -> tuple[Books, Decided]:
    books = await _open(connection, READ_BOOKS, operations)
    is_new_tenant = len(books.loaded.heads) < len({each.tenant for each in operations})
    if is_new_tenant or _sequences(operations, books):
        raise _LockNeeded
    decided = await decide(books)
    await write(connection, books)
    return books, decided


async def _under_lock(
    connection: Connection, operations: list[Operation], decide: Decide[Decided]
) -> tuple[Books, Decided]:
    """Reads after the locks that order the writers of a tenant, so that the rows stay true."""
    async with connection.transaction():
        books = await _read(connection, operations)
        decided = await decide(books)
        await write(connection, books)
    return books, decided


async def _read(connection: Connection, operations: list[Operation]) -> Books:
    books = await _open(connection, READ_BOOKS_UNDER_LOCK, operations)
    sequences = _sequences(operations, books)
    if sequences:
        _add_entries(books, await connection.fetch(READ_ENTRIES, *_columns(sequences, 2)))
    return books


async def _open(connection: Connection, statement: str, operations: list[Operation]) -> Books:
    queries = _scope_queries(operations)
    row = await connection.fetchrow(
        statement,
        sorted({operation.tenant for operation in operations}),
        *_columns(_answer_keys(operations), 3),
        *_columns(_hold_keys(operations), 2),
        _rows(queries) if queries else None,
    )
    heads = {head["tenant"]: head_from_row(head) for head in parsed(row["heads"]) or ()}
    books = Books(now=row["now"], loaded=Rows(heads=heads))
    for answer in row["answers"] or ():
        key = answer["tenant"], answer["operation"], answer["key"]
        books.loaded.answers[key] = idempotency_record_from_row(answer)
    for record in row["holds"] or ():
        hold = hold_from_record(record)
        books.loaded.holds[hold.call.tenant, hold.call.key] = hold
    books.statuses = _statuses(row["statuses"])
    return books


def _answer_keys(operations: list[Operation]) -> set[tuple[str, str, str]]:
    """Returns tenant, name and key of what may have an answer besides the one of its hold."""
    asked = {(it.tenant, it.name, it.key) for it in operations if not isinstance(it, OF_A_HOLD)}
    return asked | {(it.tenant, Record.name, it.key) for it in operations if isinstance(it, Settle)}


def _hold_keys(operations: list[Operation]) -> set[tuple[str, str]]:
    return {(it.tenant, it.key) for it in operations if not isinstance(it, WITHOUT_HOLD)}


def _columns(rows: set[tuple[Any, ...]], count: int) -> Iterable[Sequence[Any]]:
    return zip(*rows, strict=True) if rows else [()] * count


def _sequences(operations: list[Operation], books: Books) -> set[tuple[str, int]]:
    settled = {(it.tenant, it.key) for it in operations if isinstance(it, Settle)}
    answers = ((it.tenant, answer_of(it, books)) for it in operations if isinstance(it, Keyed))
    answered = {(tenant, answer.sequence) for tenant, answer in answers if answer}
    corrected = {(it.tenant, it.sequence) for it in operations if isinstance(it, Adjust)}
    posted = {
        (key[0], hold.posted_sequence)
        for key, hold in books.loaded.holds.items()
        if hold.state is HoldState.PROVISIONAL or key in settled
    }
    recorded = {
        (tenant, answer.sequence)
        for tenant, key in settled
        if (answer := books.answer(tenant, Record.name, key))
    }
    return {at for at in answered | corrected | posted | recorded if at[1]}


def _add_entries(books: Books, rows: Iterable[Any]) -> None:
    for row in rows:
        entry = entry_from_row(parsed(row["entry"]))
        at = entry.call.tenant, entry.sequence
        books.loaded.entries[at] = entry
        books.loaded.corrections[at] = Corrections(row["is_taken_back"], row["adjusted"])


def _scope_queries(operations: list[Operation]) -> set[ScopeQuery]:
    queries: set[ScopeQuery] = set()
    for operation in operations:
        match operation:
            case Reserve():
                queries.update(queries_of_reserve(operation))
            case Record(tenant=tenant, subject=subject, occur_time=occur_time):
                queries.update(scope_queries(tenant, subject, (), occur_time))
    return queries


def _rows(queries: set[ScopeQuery]) -> str:
    return to_json(
        {"tenant": query.tenant, "scope": query.scope, "scope_id": query.scope_id, "at": query.at}
        for query in queries
    )


def _statuses(text: str | None) -> dict[ScopeQuery, list[WindowStatus]]:
    statuses: defaultdict[ScopeQuery, list[WindowStatus]] = defaultdict(list)
    for row in parsed(text) or ():
        at = row["at"] and moment(row["at"])
        query = ScopeQuery(row["tenant"], BudgetScope(row["scope"]), row["scope_id"], at)
        statuses[query].append(_status(query, row))
    return statuses


def _status(query: ScopeQuery, row: dict[str, Any]) -> WindowStatus:
    return WindowStatus(
        row["tenant"],
        row["id"],
        query.scope,
        query.scope_id,
        Money(row["hard_limit"], row["currency"]),
        moment(row["first"]),
        moment(row["start"]),
        row["used"],
        row["held"],
        row_exists=row["row_exists"],
    )
