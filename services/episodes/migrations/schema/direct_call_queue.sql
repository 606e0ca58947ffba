-- Direct calls that have not ended: who makes them, and when another worker may. A row of its own, so that taking and
-- keeping a call rewrites nothing wide.
CREATE TABLE direct_call_queue (
    call_id uuid PRIMARY KEY REFERENCES direct_calls ON DELETE CASCADE,
    due_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    holder text NOT NULL DEFAULT '',
    attempts integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX direct_call_queue_by_due_time ON direct_call_queue (due_time);
