"""Looks every key up by itself, whatever the planner knows of the tables' sizes.

A join lets the planner read all answers of a tenant once and compare each with each key.
For a few answers that is the best plan, and a connection keeps it for the millionth.
"""

from alembic import op

revision = "0029"
down_revision = "0028"

# OFFSET 0 keeps a look-up apart, so that it is made once for each key, by the whole key.
READ_KEYS = """
    CREATE OR REPLACE FUNCTION read_keys(
        tenants text[], operations text[], keys text[], hold_keys text[]
    ) RETURNS json STABLE LANGUAGE plpgsql AS $$
    BEGIN
        RETURN (
            SELECT json_agg(json_build_object('tenant', asked.tenant,
                                              'operation', asked.operation,
                                              'key', asked.key, 'answer', answered, 'hold', held))
            FROM unnest(tenants, operations, keys, hold_keys)
                AS asked(tenant, operation, key, hold_key)
            LEFT JOIN LATERAL (
                SELECT i.* FROM idempotency i
                WHERE i.tenant = asked.tenant AND i.operation = asked.operation
                  AND i.key = asked.key
                OFFSET 0
            ) answered ON true
            LEFT JOIN LATERAL (
                SELECT h.* FROM hold h
                WHERE h.tenant = asked.tenant AND h.key = asked.hold_key
                OFFSET 0
            ) held ON true
            WHERE answered.tenant IS NOT NULL OR held.tenant IS NOT NULL
        );
    END
    $$
"""
READ_STANDINGS = """
    CREATE OR REPLACE FUNCTION read_standings(asks json, now timestamptz) RETURNS json
    STABLE LANGUAGE plpgsql AS $$
    BEGIN
        RETURN (
            SELECT json_agg(standing) FROM (
                SELECT asked.tenant, asked.scope, asked.scope_id, asked.at, b.id,
                       b.hard_limit, b.currency, b.first, b.start, used.used, used.row_exists
                FROM json_to_recordset(asks)
                    AS asked(tenant text, scope text, scope_id text, at timestamptz)
                CROSS JOIN LATERAL (
                    SELECT b.*, window_first(b, coalesce(asked.at, now)) AS first,
                           window_start(b, coalesce(asked.at, now)) AS start
                    FROM budget b
                    WHERE b.tenant = asked.tenant AND b.scope = asked.scope
                      AND b.scope_id = asked.scope_id
                      AND budget_holds(b, coalesce(asked.at, now))
                    OFFSET 0
                ) b
                CROSS JOIN LATERAL (
                    SELECT coalesce(sum(w.posted + w.held), 0) AS used,
                           coalesce(bool_or(w.start = b.start), false) AS row_exists
                    FROM budget_window w
                    WHERE w.tenant = b.tenant AND w.budget_id = b.id
                      AND w.start BETWEEN b.first AND b.start
                ) used
            ) standing
        );
    END
    $$
"""


def upgrade() -> None:
    op.execute(READ_KEYS)
    op.execute(READ_STANDINGS)
