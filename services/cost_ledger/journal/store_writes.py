"""Writes what a group decided: one statement, one array per column."""

from collections.abc import Iterable
from operator import add
from typing import Any

from cost_ledger.decisions.books import Books
from cost_ledger.journal.store_rows import entry_values, hold_values, idempotency_values
from cost_ledger.journal.store_statements import write_statement
from cost_ledger.models import ZERO, Entry, Postings

Values = tuple[Any, ...]


async def write(connection: Any, books: Books) -> None:
    """Writes the rows of the group's accepted batches, if there are any."""
    parts = {part: rows for part, rows in parts_of(books).items() if rows}
    if parts:
        columns = (column for rows in parts.values() for column in zip(*rows, strict=True))
        await connection.execute(write_statement(tuple(parts)), *columns)


def parts_of(books: Books) -> dict[str, list[Values]]:
    """The rows to write, by the part of the statement that takes them."""
    written, known = books.written, books.loaded.holds
    opened, moved = _windows(books)
    return {
        "heads": [
            (tenant, head.sequence, head.hash, head.closed_before)
            for tenant, head in written.heads.items()
        ],
        "entries": [entry_values(entry) for entry in written.entries.values()],
        "new_holds": [hold_values(it) for key, it in written.holds.items() if key not in known],
        "changed_holds": [hold_values(it) for key, it in written.holds.items() if key in known],
        "answers": [idempotency_values(*key, answer) for key, answer in written.answers.items()],
        "opened_windows": opened,
        "moved_windows": moved,
        "balances": _balances(written.entries.values()),
    }


def _windows(books: Books) -> tuple[list[Values], list[Values]]:
    """Windows that get their first row, and windows whose row is added to."""
    missing = {
        (status.tenant, status.budget_id, status.start)
        for found in books.statuses.values()
        for status in found
        if not status.row_exists
    }
    opened: list[Values] = []
    moved: list[Values] = []
    for window, delta in books.written.deltas.items():
        at = (window.tenant, window.budget_id, window.start)
        (opened if at in missing else moved).append((*at, delta.posted, delta.held))
    return opened, moved


def _balances(entries: Iterable[Entry]) -> list[Values]:
    """What the entries add to each tenant's accounts, per unit."""
    sums: dict[tuple[str, str], Values] = {}
    for entry in entries:
        for unit, amounts in _by_unit(entry.postings):
            key = entry.call.tenant, unit
            before = sums.get(key)
            sums[key] = tuple(map(add, before, amounts)) if before else amounts
    return [(*key, *amounts) for key, amounts in sums.items()]


def _by_unit(posted: Postings) -> Iterable[tuple[str, Values]]:
    if posted.hold_unit:
        yield posted.hold_unit, (posted.held, posted.available, ZERO, ZERO, ZERO, ZERO)
    if posted.unit:
        costs = (posted.spend, posted.provisional, posted.suspense, posted.payable)
        yield posted.unit, (ZERO, ZERO, *costs)
