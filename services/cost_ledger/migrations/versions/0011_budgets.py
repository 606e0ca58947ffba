"""Budgets with a beginning and an end; alerts raised by the windows themselves."""

from alembic import op

revision = "0011"
down_revision = "0010"

STATEMENTS = (
    "ALTER TABLE budget ADD COLUMN start_time timestamptz, ADD COLUMN end_time timestamptz",
    """
    CREATE FUNCTION budget_holds(budget, timestamptz) RETURNS boolean STABLE LANGUAGE sql
    RETURN $1.close_time IS NULL
        AND ($1.start_time IS NULL OR $1.start_time <= $2)
        AND ($1.end_time IS NULL OR $2 < $1.end_time)
    """,
    """
    ALTER TABLE budget_alert
        ADD COLUMN sequence bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
        ADD COLUMN posted numeric(28, 12) NOT NULL DEFAULT 0,
        ADD COLUMN publish_time timestamptz
    """,
    "ALTER TABLE budget_alert ALTER COLUMN posted DROP DEFAULT",
    "CREATE INDEX budget_alert_owed ON budget_alert (sequence) WHERE publish_time IS NULL",
    # Rolling windows overlap: a rolling budget alerts once in each period of its length.
    """
    CREATE FUNCTION alert_start(budget, timestamptz) RETURNS timestamptz STABLE LANGUAGE sql
    RETURN CASE $1.budget_window
        WHEN 'rolling' THEN to_timestamp(
            floor(extract(epoch FROM $2) / $1.rolling_length_s) * $1.rolling_length_s
        )
        ELSE $2
    END
    """,
    # Whoever moves money raises the alerts, in the same transaction and once each.
    """
    CREATE FUNCTION raise_alerts() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO budget_alert (tenant, budget_id, start, soft_limit, posted)
        SELECT b.tenant, b.id, alert_start(b, moved.start), soft.soft_limit, spent.posted
        FROM moved
        JOIN budget b ON (b.tenant, b.id) = (moved.tenant, moved.budget_id)
            AND cardinality(b.soft_limits) > 0
        CROSS JOIN LATERAL (
            SELECT sum(w.posted) AS posted FROM budget_window w
            WHERE w.tenant = b.tenant AND w.budget_id = b.id
              AND w.start BETWEEN window_first(b, moved.start) AND moved.start
        ) spent
        CROSS JOIN LATERAL unnest(b.soft_limits) AS soft(soft_limit)
        WHERE moved.posted > 0 AND spent.posted >= soft.soft_limit
        ON CONFLICT DO NOTHING;
        RETURN NULL;
    END
    $$
    """,
    "GRANT UPDATE (publish_time) ON budget_alert TO cost_ledger_service",
    # The relay publishes for every tenant; another replica takes others instead of waiting.
    """
    CREATE FUNCTION owed_alerts(count_max integer) RETURNS TABLE (tenant text, sequence bigint)
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
        SELECT a.tenant, a.sequence FROM budget_alert a WHERE a.publish_time IS NULL
        ORDER BY a.sequence LIMIT count_max FOR UPDATE SKIP LOCKED
    $$
    """,
    *(
        f"""
        CREATE TRIGGER raise_alerts_on_{event} AFTER {event} ON budget_window
        REFERENCING NEW TABLE AS moved FOR EACH STATEMENT EXECUTE FUNCTION raise_alerts()
        """
        for event in ("insert", "update")
    ),
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
