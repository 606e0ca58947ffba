"""Budgets, and a row per window that money was counted in."""

from alembic import op

revision = "0004"
down_revision = "0003"

TABLES = (
    """
    CREATE TABLE budget (
        tenant text NOT NULL,
        id text NOT NULL,
        scope text NOT NULL,
        scope_id text NOT NULL,
        budget_window text NOT NULL,
        rolling_length_s double precision NOT NULL,
        time_zone text NOT NULL,
        currency text NOT NULL,
        hard_limit numeric(28, 12) NOT NULL CHECK (hard_limit >= 0),
        soft_limits numeric(28, 12)[] NOT NULL,
        create_time timestamptz NOT NULL DEFAULT ledger_clock(),
        close_time timestamptz,
        PRIMARY KEY (tenant, id)
    )
    """,
    # A named budget's scope_id is its own id, so that one index finds every covering budget.
    "CREATE INDEX budget_open ON budget (tenant, scope, scope_id) WHERE close_time IS NULL",
    """
    CREATE TABLE budget_window (
        tenant text NOT NULL,
        budget_id text NOT NULL,
        start timestamptz NOT NULL,
        posted numeric(28, 12) NOT NULL CHECK (posted >= 0),
        held numeric(28, 12) NOT NULL CHECK (held >= 0),
        PRIMARY KEY (tenant, budget_id, start)
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE budget_alert (
        tenant text NOT NULL,
        budget_id text NOT NULL,
        start timestamptz NOT NULL,
        soft_limit numeric(28, 12) NOT NULL,
        create_time timestamptz NOT NULL DEFAULT ledger_clock(),
        PRIMARY KEY (tenant, budget_id, start, soft_limit)
    )
    """,
)

FUNCTIONS = (
    # The bucket that an instant falls into; a total has one bucket since its creation.
    """
    CREATE FUNCTION window_start(budget, timestamptz) RETURNS timestamptz STABLE LANGUAGE sql
    RETURN CASE $1.budget_window
        WHEN 'total' THEN $1.create_time
        WHEN 'rolling' THEN date_trunc('minute', $2)
        ELSE date_trunc($1.budget_window, $2, $1.time_zone)
    END
    """,
    # The oldest bucket that counts. A rolling one that has partly passed counts whole.
    """
    CREATE FUNCTION window_first(budget, timestamptz) RETURNS timestamptz STABLE LANGUAGE sql
    RETURN CASE $1.budget_window
        WHEN 'rolling' THEN date_trunc('minute', $2 - make_interval(secs => $1.rolling_length_s))
        ELSE window_start($1, $2)
    END
    """,
)

ACCESS = (
    *(f"SELECT protect('{table}')" for table in ("budget", "budget_window", "budget_alert")),
    "GRANT SELECT, INSERT, UPDATE ON budget, budget_window TO cost_ledger_service",
    "GRANT SELECT, INSERT ON budget_alert TO cost_ledger_service",
)


def upgrade() -> None:
    for statement in (*TABLES, *FUNCTIONS, *ACCESS):
        op.execute(statement)
