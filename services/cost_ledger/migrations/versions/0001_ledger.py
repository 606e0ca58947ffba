"""Prices, holds, the immutable journal, permanent answers, budgets and their windows."""

from alembic import op

revision = "0001"
down_revision = None

STATEMENTS = (
    "CREATE EXTENSION IF NOT EXISTS btree_gist",
    # An empty tenant is the list price: NULLs would never conflict with each other.
    """
    CREATE TABLE price_version (
        id text PRIMARY KEY,
        tenant text NOT NULL,
        sku text NOT NULL,
        currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
        validity tstzrange NOT NULL CHECK (NOT isempty(validity)),
        end_is_given boolean NOT NULL,
        source text NOT NULL,
        create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
        EXCLUDE USING gist (tenant WITH =, sku WITH =, validity WITH &&)
    )
    """,
    "CREATE INDEX price_version_by_sku ON price_version (sku, tenant)",
    """
    CREATE TABLE price_component (
        price_version_id text NOT NULL REFERENCES price_version,
        dimension text NOT NULL,
        unit_price numeric(30, 18) NOT NULL CHECK (unit_price >= 0),
        per numeric(28, 12) NOT NULL CHECK (per > 0),
        PRIMARY KEY (price_version_id, dimension)
    )
    """,
    # One row per tenant: its lock orders the tenant's writes, its count leaves no gap.
    "CREATE TABLE ledger_head (tenant text PRIMARY KEY, sequence bigint NOT NULL DEFAULT 0)",
    """
    CREATE TABLE entry (
        tenant text NOT NULL,
        sequence bigint NOT NULL,
        kind text NOT NULL,
        key text NOT NULL,
        episode_id text NOT NULL,
        turn integer NOT NULL,
        tool text NOT NULL,
        model text NOT NULL,
        team text NOT NULL,
        user_id text NOT NULL,
        agent text NOT NULL,
        sku text NOT NULL,
        windows json NOT NULL,
        quantities jsonb,
        usage_source text,
        provider_request_id text,
        amount numeric(28, 12),
        currency text,
        price_version_id text NOT NULL,
        occur_time timestamptz NOT NULL,
        create_time timestamptz NOT NULL,
        corrects_sequence bigint NOT NULL,
        reason text NOT NULL,
        PRIMARY KEY (tenant, sequence),
        CHECK ((amount IS NULL) = (currency IS NULL))
    )
    """,
    # Partial, so that looking an entry up by its sequence can only mean the primary key:
    # of a table without statistics the planner may pick any index that starts with tenant.
    """
    CREATE INDEX entry_by_episode ON entry (tenant, episode_id, sequence)
    WHERE episode_id <> ''
    """,
    """
    CREATE INDEX entry_cost_by_time ON entry (tenant, occur_time)
    WHERE kind IN ('capture', 'record', 'reverse', 'settle')
    """,
    """
    CREATE UNIQUE INDEX entry_corrected_once ON entry (tenant, corrects_sequence)
    WHERE corrects_sequence > 0
    """,
    """
    CREATE TABLE hold (
        tenant text NOT NULL,
        key text NOT NULL,
        episode_id text NOT NULL,
        turn integer NOT NULL,
        tool text NOT NULL,
        model text NOT NULL,
        team text NOT NULL,
        user_id text NOT NULL,
        agent text NOT NULL,
        sku text NOT NULL,
        windows json NOT NULL,
        worst_case jsonb NOT NULL,
        amount numeric(28, 12),
        currency text,
        state text NOT NULL,
        price_version_id text NOT NULL,
        create_time timestamptz NOT NULL,
        expire_time timestamptz NOT NULL,
        posted_sequence bigint NOT NULL,
        PRIMARY KEY (tenant, key)
    ) WITH (fillfactor = 80)
    """,
    "CREATE INDEX hold_open_by_expiry ON hold (expire_time) WHERE state = 'open'",
    "CREATE INDEX hold_open_by_episode ON hold (tenant, episode_id) WHERE state = 'open'",
    """
    CREATE TABLE idempotency (
        tenant text NOT NULL,
        operation text NOT NULL,
        key text NOT NULL,
        request_hash text NOT NULL,
        sequence bigint NOT NULL,
        refusal json,
        PRIMARY KEY (tenant, operation, key),
        CHECK ((sequence = 0) = (refusal IS NOT NULL))
    )
    """,
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
        create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
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
        create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
        PRIMARY KEY (tenant, budget_id, start, soft_limit)
    )
    """,
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
    """
    CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION '% is immutable; post a correction', TG_TABLE_NAME;
    END
    $$
    """,
    *(
        f"""
        CREATE TRIGGER immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()
        """
        for table in ("entry", "idempotency", "price_component")
    ),
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
