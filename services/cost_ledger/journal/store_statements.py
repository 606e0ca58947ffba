"""The statements of the journal's hot path.

What a group reads comes from the function `read_books` in one round trip. What it writes
is one statement of as many parts as there are kinds of rows. A part takes its rows as one
array per column, so its text does not depend on their number and is prepared once; a part of
one row takes plain values, which for a single operation is cheaper than an array for each.
"""

from functools import cache

from cost_ledger.journal.store_rows import (
    ENTRY_COLUMNS,
    HOLD_CHANGE_COLUMNS,
    HOLD_COLUMNS,
    IDEMPOTENCY_COLUMNS,
)

READ_BOOKS = "SELECT * FROM read_books($1, $2, $3, $4, $5, $6, $7)"
READ_BOOKS_UNDER_LOCK = READ_BOOKS.replace("read_books", "read_books_under_lock")

# The entries that answers, provisional costs and corrections are about, and what later
# entries did to each.
READ_ENTRIES = """
    SELECT row_to_json(e)::text AS entry, later.is_taken_back, later.adjusted
    FROM unnest($1::text[], $2::bigint[]) AS asked(tenant, sequence)
    JOIN entry e ON (e.tenant, e.sequence) = (asked.tenant, asked.sequence)
    CROSS JOIN LATERAL (
        SELECT coalesce(bool_or(c.kind <> 'adjust'), false) AS is_taken_back,
               coalesce(sum(-c.payable) FILTER (WHERE c.kind = 'adjust'), 0) AS adjusted
        FROM entry c
        WHERE c.tenant = asked.tenant AND c.corrects_sequence = asked.sequence
          AND c.corrects_sequence > 0
    ) later
"""

HEAD_COLUMNS = {
    "tenant": "text",
    "sequence": "bigint",
    "hash": "bytea",
    "closed_before": "timestamptz",
    # What was read; another writer may have moved it.
    "read_sequence": "bigint",
    "read_budget_changes": "bigint",
}
WINDOW_COLUMNS = {
    "tenant": "text",
    "budget_id": "text",
    "start": "timestamptz",
    "posted": "numeric",
    "held": "numeric",
}

COLUMNS = {
    "heads": HEAD_COLUMNS,
    "entries": ENTRY_COLUMNS,
    "new_holds": HOLD_COLUMNS,
    "changed_holds": HOLD_CHANGE_COLUMNS,
    "answers": IDEMPOTENCY_COLUMNS,
    "opened_windows": WINDOW_COLUMNS,
    "moved_windows": WINDOW_COLUMNS,
}


def _insert(table: str, columns: dict[str, str]) -> str:
    names = ", ".join(columns)
    return f"INSERT INTO {table} ({names}) SELECT {names} FROM {{rows}}"  # noqa: S608  constants


def _changes() -> str:
    names = HOLD_CHANGE_COLUMNS.keys() - {"tenant", "key"}
    return ", ".join(f"{name} = n.{name}" for name in sorted(names))


PARTS = {
    "heads": """
        UPDATE ledger_head h
        SET sequence = n.sequence, hash = n.hash, closed_before = n.closed_before
        FROM {rows} WHERE h.tenant = n.tenant
          AND (h.sequence, h.budget_changes) = (n.read_sequence, n.read_budget_changes)
        RETURNING 1
    """,
    "entries": _insert("entry", ENTRY_COLUMNS),
    "new_holds": _insert("hold", HOLD_COLUMNS),
    "changed_holds": f"""
        UPDATE hold h SET {_changes()} FROM {{rows}} WHERE (h.tenant, h.key) = (n.tenant, n.key)
    """,  # noqa: S608  constants
    "answers": _insert("idempotency", IDEMPOTENCY_COLUMNS),
    "opened_windows": _insert("budget_window", WINDOW_COLUMNS),
    "moved_windows": """
        UPDATE budget_window w SET posted = w.posted + n.posted, held = w.held + n.held
        FROM {rows} WHERE (w.tenant, w.budget_id, w.start) = (n.tenant, n.budget_id, n.start)
    """,
}


# Parts in order, and whether each has one row, in plain values.
Shape = tuple[tuple[str, bool], ...]


@cache
def write_statement(shape: Shape) -> str:
    """One statement that writes the named kinds of rows, their values in this order.

    Fails with a serialization failure when a head is not as it was read.
    """
    number = 0
    written = []
    for part, is_single in shape:
        columns = COLUMNS[part]
        rows = (_values if is_single else _arrays)(columns, number)
        number += len(columns)
        written.append(f"{part} AS ({PARTS[part].format(rows=rows)})")
    return f"WITH {', '.join(written)} SELECT {_won_race(shape)}"


def _values(columns: dict[str, str], after: int) -> str:
    values = ", ".join(
        f"${after + position}::{kind} AS {name}"
        for position, (name, kind) in enumerate(columns.items(), start=1)
    )
    return f"(SELECT {values}) AS n"


def _arrays(columns: dict[str, str], after: int) -> str:
    arrays = ", ".join(
        f"${after + position}::{kind}[]" for position, kind in enumerate(columns.values(), start=1)
    )
    return f"unnest({arrays}) AS n({', '.join(columns)})"


def _won_race(shape: Shape) -> str:
    """Checks the heads first, so that nothing else waits for other writers."""
    part, is_single = shape[0]
    if part != "heads":
        return "true"
    wanted = "1" if is_single else "cardinality($1)"
    won = f"(SELECT count(*) FROM heads) = {wanted}"  # noqa: S608  constants
    return f"CASE WHEN {won} THEN true ELSE lose_race() END"
