"""The statements of the journal's hot path.

What a group reads comes from the function `open_books` in one round trip. What it writes
is one statement of as many parts as there are kinds of rows; each takes its rows as one
array per column, so its text does not depend on their number and is prepared once.
"""

from functools import cache

from cost_ledger.journal.store_rows import (
    ACCOUNTS,
    ENTRY_COLUMNS,
    HOLD_COLUMNS,
    IDEMPOTENCY_COLUMNS,
)

OPEN_BOOKS = "SELECT * FROM open_books($1, $2, $3, $4, $5, $6)"
READ_STATUSES = "SELECT read_statuses($1, $2)"

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
}
WINDOW_COLUMNS = {
    "tenant": "text",
    "budget_id": "text",
    "start": "timestamptz",
    "posted": "numeric",
    "held": "numeric",
}
BALANCE_COLUMNS = {"tenant": "text", "unit": "text"} | dict.fromkeys(ACCOUNTS, "numeric")

COLUMNS = {
    "heads": HEAD_COLUMNS,
    "entries": ENTRY_COLUMNS,
    "new_holds": HOLD_COLUMNS,
    "changed_holds": HOLD_COLUMNS,
    "answers": IDEMPOTENCY_COLUMNS,
    "opened_windows": WINDOW_COLUMNS,
    "moved_windows": WINDOW_COLUMNS,
    "balances": BALANCE_COLUMNS,
}
# Of a hold everything but whose call it is may change.
HOLD_CHANGES = [
    *("windows", "worst_case", "amount", "currency"),
    *("state", "dispatched", "expire_time", "posted_sequence"),
]


def _insert(table: str, columns: dict[str, str]) -> str:
    names = ", ".join(columns)
    return f"INSERT INTO {table} ({names}) SELECT {names} FROM {{rows}}"  # noqa: S608  constants


def _changes() -> str:
    return ", ".join(f"{name} = n.{name}" for name in HOLD_CHANGES)


def _sums() -> str:
    return ", ".join(f"{name} = balance.{name} + excluded.{name}" for name in ACCOUNTS)


PARTS = {
    "heads": """
        UPDATE ledger_head h
        SET sequence = n.sequence, hash = n.hash, closed_before = n.closed_before
        FROM {rows} WHERE h.tenant = n.tenant
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
    "balances": _insert("balance", BALANCE_COLUMNS)
    + f" ON CONFLICT (tenant, unit) DO UPDATE SET {_sums()}",
}


@cache
def write_statement(parts: tuple[str, ...]) -> str:
    """One statement that writes the named kinds of rows, its arrays in their order."""
    number = 0
    written = []
    for part in parts:
        columns = COLUMNS[part]
        arrays = ", ".join(
            f"${number + position}::{kind}[]"
            for position, kind in enumerate(columns.values(), start=1)
        )
        number += len(columns)
        rows = f"unnest({arrays}) AS n({', '.join(columns)})"
        written.append(f"{part} AS ({PARTS[part].format(rows=rows)})")
    return f"WITH {', '.join(written)} SELECT"
