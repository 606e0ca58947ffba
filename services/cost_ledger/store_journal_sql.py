"""The statements of the journal's hot path."""

from sqlalchemy import text

# Ordered, so that two groups never wait for each other in a circle.
LOCK_HEADS = text("""
    SELECT tenant, sequence FROM ledger_head
    WHERE tenant = ANY(CAST(:tenants AS text[])) ORDER BY tenant FOR UPDATE
""")

ADD_HEADS = text("""
    INSERT INTO ledger_head (tenant) SELECT unnest(CAST(:tenants AS text[]))
    ON CONFLICT DO NOTHING
""")

# For each key: its answer, its hold, and the entry that the answer, the reversal or the
# provisional hold is about. A reversal's hold is that of the entry it reverses. Of two
# steps, so that the entry is looked up by its whole primary key.
READ = text("""
    WITH found AS MATERIALIZED (
        SELECT asked.*, row_to_json(i)::text AS answer, row_to_json(h)::text AS hold,
               coalesce(
                   nullif(i.sequence, 0),
                   nullif(asked.sequence, 0),
                   CASE h.state WHEN 'provisional' THEN h.posted_sequence END
               ) AS entry_sequence
        FROM json_to_recordset(CAST(:asked AS json))
            AS asked(tenant text, operation text, key text, sequence bigint)
        LEFT JOIN idempotency i ON (i.tenant, i.operation, i.key)
            = (asked.tenant, asked.operation, asked.key)
        LEFT JOIN hold h ON h.tenant = asked.tenant AND h.key = CASE WHEN asked.sequence = 0
            THEN asked.key
            ELSE (SELECT r.key FROM entry r
                  WHERE (r.tenant, r.sequence) = (asked.tenant, asked.sequence)) END
    )
    SELECT clock_timestamp() AS now, found.*, row_to_json(e)::text AS entry,
           found.sequence > 0 AND EXISTS (
               SELECT FROM entry c WHERE c.corrects_sequence > 0
                 AND (c.tenant, c.corrects_sequence) = (found.tenant, found.sequence)
           ) AS corrected
    FROM found
    LEFT JOIN entry e ON (e.tenant, e.sequence) = (found.tenant, found.entry_sequence)
""")

STANDINGS = text("""
    SELECT asked.tenant, asked.scope, asked.scope_id, asked.at, b.id, b.hard_limit, b.currency,
           span.first, span.start, used.used, used.row_exists
    FROM json_to_recordset(CAST(:asked AS json))
        AS asked(tenant text, scope text, scope_id text, at timestamptz)
    JOIN budget b ON (b.tenant, b.scope, b.scope_id)
        = (asked.tenant, asked.scope, asked.scope_id) AND budget_holds(b, asked.at)
    CROSS JOIN LATERAL (
        SELECT window_first(b, asked.at) AS first, window_start(b, asked.at) AS start
    ) span
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(w.posted + w.held), 0) AS used,
               coalesce(bool_or(w.start = span.start), false) AS row_exists
        FROM budget_window w
        WHERE w.tenant = b.tenant AND w.budget_id = b.id
          AND w.start BETWEEN span.first AND span.start
    ) used
""")

# One statement, so one round trip; its parts all see the state before it.
WRITE = text("""
    WITH head AS (
        UPDATE ledger_head SET sequence = n.sequence
        FROM json_to_recordset(CAST(:heads AS json)) AS n(tenant text, sequence bigint)
        WHERE ledger_head.tenant = n.tenant
    ), entries AS (
        INSERT INTO entry
        SELECT * FROM json_populate_recordset(NULL::entry, CAST(:entries AS json))
    ), holds AS (
        INSERT INTO hold
        SELECT * FROM json_populate_recordset(NULL::hold, CAST(:holds AS json))
    ), changed_holds AS (
        UPDATE hold SET state = n.state, posted_sequence = n.posted_sequence
        FROM json_to_recordset(CAST(:changed_holds AS json))
            AS n(tenant text, key text, state text, posted_sequence bigint)
        WHERE (hold.tenant, hold.key) = (n.tenant, n.key)
    ), answers AS (
        INSERT INTO idempotency
        SELECT * FROM json_populate_recordset(NULL::idempotency, CAST(:answers AS json))
    ), opened AS (
        INSERT INTO budget_window
        SELECT * FROM json_populate_recordset(NULL::budget_window, CAST(:opened_windows AS json))
    )
    UPDATE budget_window w SET posted = w.posted + n.posted, held = w.held + n.held
    FROM json_populate_recordset(NULL::budget_window, CAST(:moved_windows AS json)) n
    WHERE (w.tenant, w.budget_id, w.start) = (n.tenant, n.budget_id, n.start)
""")
