from collections.abc import Iterable
from typing import Any

from cost_ledger.journal.store_rows import (
    entry_values,
    hold_change_values,
    hold_values,
    idempotency_values,
)
from cost_ledger.journal.store_statements import Shape, write_statement
from cost_ledger.posting.books import Books

Values = tuple[Any, ...]


async def write(connection: Any, books: Books) -> None:
    parts = {part: rows for part, rows in parts_of(books).items() if rows}
    if parts:
        shape = shape_of(parts, is_alone=len(books.written.entries) <= 1)
        await connection.execute(write_statement(shape), *_values(parts, shape))


def shape_of(parts: dict[str, list[Values]], *, is_alone: bool) -> Shape:
    """Plain values for what a single operation writes; of groups there would be many shapes."""
    return tuple((part, is_alone and len(rows) == 1) for part, rows in parts.items())


def _values(parts: dict[str, list[Values]], shape: Shape) -> Iterable[object]:
    for part, is_single in shape:
        rows = parts[part]
        yield from rows[0] if is_single else zip(*rows, strict=True)


def parts_of(books: Books) -> dict[str, list[Values]]:
    written, known = books.written, books.loaded.holds
    opened, moved = _windows(books)
    return {
        "heads": _heads(books),
        "entries": [entry_values(entry) for entry in written.entries.values()],
        "new_holds": [hold_values(it) for key, it in written.holds.items() if key not in known],
        "changed_holds": [
            hold_change_values(it) for key, it in written.holds.items() if key in known
        ],
        "answers": [idempotency_values(*key, answer) for key, answer in written.answers.items()],
        "opened_windows": opened,
        "moved_windows": moved,
    }


def _heads(books: Books) -> list[Values]:
    """Returns the heads in one order, so that two writers never wait for each other in a circle."""
    loaded = books.loaded.heads
    return [
        (
            *(tenant, head.sequence, head.hash, head.closed_before),
            *(loaded[tenant].sequence, loaded[tenant].budget_changes),
        )
        for tenant, head in sorted(books.written.heads.items())
    ]


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
