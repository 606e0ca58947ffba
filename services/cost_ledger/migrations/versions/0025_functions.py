"""Functions that see every tenant are the service's alone, not everybody's.

PostgreSQL lets PUBLIC execute a new function. One that runs as its owner (SECURITY DEFINER)
would show any role of the server what row-level security hides from it.
"""

from alembic import op

revision = "0025"
down_revision = "0024"

FUNCTIONS = (
    "make_entry_partitions(integer)",
    "prune_keys(integer)",
    "overdue_holds(integer)",
    "owed_alerts(integer)",
    "tenants_behind()",
    "platform_spend(date, date, boolean, boolean, boolean, boolean, boolean)",
    "heads_to_anchor()",
    "revise_prices()",
)


def upgrade() -> None:
    named = ", ".join(FUNCTIONS)
    op.execute(f"REVOKE EXECUTE ON FUNCTION {named} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {named} TO cost_ledger_service")
