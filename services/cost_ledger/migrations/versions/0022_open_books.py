"""Opens the books with statements that are planned once per connection.

PL/pgSQL keeps the plans of its statements for as long as the connection lasts.
"""

from alembic import op

revision = "0022"
down_revision = "0020"

STATEMENTS = (
    "DROP FUNCTION read_keys(text[], text[], text[], text[])",
    "DROP FUNCTION lock_heads(text[])",
    # Where every budget of the asked scopes stands at a time (unset: now).
    """
    CREATE OR REPLACE FUNCTION read_standings(asks json, now timestamptz) RETURNS json
    STABLE LANGUAGE plpgsql AS $$
    BEGIN
        RETURN (
            SELECT json_agg(standing) FROM (
                SELECT asked.tenant, asked.scope, asked.scope_id, asked.at, b.id,
                       b.hard_limit, b.currency, span.first, span.start,
                       used.used, used.row_exists
                FROM json_to_recordset(asks)
                    AS asked(tenant text, scope text, scope_id text, at timestamptz)
                JOIN budget b ON (b.tenant, b.scope, b.scope_id)
                    = (asked.tenant, asked.scope, asked.scope_id)
                    AND budget_holds(b, coalesce(asked.at, now))
                CROSS JOIN LATERAL (
                    SELECT window_first(b, coalesce(asked.at, now)) AS first,
                           window_start(b, coalesce(asked.at, now)) AS start
                ) span
                CROSS JOIN LATERAL (
                    SELECT coalesce(sum(w.posted + w.held), 0) AS used,
                           coalesce(bool_or(w.start = span.start), false) AS row_exists
                    FROM budget_window w
                    WHERE w.tenant = b.tenant AND w.budget_id = b.id
                      AND w.start BETWEEN span.first AND span.start
                ) used
            ) standing
        );
    END
    $$
    """,
    # Ordered, so that two groups never wait for each other in a circle.
    """
    CREATE FUNCTION lock_heads(tenants text[]) RETURNS json LANGUAGE plpgsql AS $$
    BEGIN
        RETURN (
            SELECT json_agg(locked) FROM (
                SELECT tenant, sequence, encode(hash, 'hex') AS hash, closed_before
                FROM ledger_head WHERE tenant = ANY (tenants) ORDER BY tenant FOR UPDATE
            ) locked
        );
    END
    $$
    """,
    # The answer and the hold that each key already has.
    """
    CREATE FUNCTION read_keys(tenants text[], operations text[], keys text[], hold_keys text[])
    RETURNS json STABLE LANGUAGE plpgsql AS $$
    BEGIN
        RETURN (
            SELECT json_agg(json_build_object('tenant', asked.tenant,
                                              'operation', asked.operation,
                                              'key', asked.key, 'answer', i, 'hold', h))
            FROM unnest(tenants, operations, keys, hold_keys)
                AS asked(tenant, operation, key, hold_key)
            LEFT JOIN idempotency i ON (i.tenant, i.operation, i.key)
                = (asked.tenant, asked.operation, asked.key)
            LEFT JOIN hold h ON (h.tenant, h.key) = (asked.tenant, asked.hold_key)
            WHERE i.tenant IS NOT NULL OR h.tenant IS NOT NULL
        );
    END
    $$
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
