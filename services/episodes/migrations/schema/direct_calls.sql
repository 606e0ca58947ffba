-- Calls of models without an episode. What the adapters answered is stored before its cost is.
CREATE TABLE direct_calls (
    id uuid PRIMARY KEY,
    tenant text NOT NULL,
    subject text NOT NULL,
    spec bytea NOT NULL,
    toolset bytea NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    answer bytea,
    cost numeric(28, 12),
    currency text,
    end_time timestamptz
);
CREATE INDEX direct_calls_by_age ON direct_calls (create_time);
