-- Calls of tools without an episode. The adapters' answer is stored before its cost is.
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
    end_time timestamptz,
    -- Teams, agents, roles and key of the caller: budgets are charged for them, policies bind them.
    groups text[] NOT NULL DEFAULT '{}'
);
CREATE INDEX direct_calls_by_age ON direct_calls (create_time);

-- Direct calls that have not ended, with their holder and the time from which another worker may lease them. A row of its
-- own, so that leasing a call and renewing the lease rewrite nothing wide.
CREATE TABLE direct_call_queue (
    call_id uuid PRIMARY KEY REFERENCES direct_calls ON DELETE CASCADE,
    due_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    holder text NOT NULL DEFAULT '',
    attempts integer NOT NULL DEFAULT 0,
    tenant text NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX direct_call_queue_by_due_time ON direct_call_queue (due_time);
CREATE INDEX direct_call_queue_by_tenant ON direct_call_queue (tenant, due_time);
-- Few rows are held, however many wait.
CREATE INDEX direct_call_queue_held ON direct_call_queue (tenant, due_time) WHERE holder <> '';
