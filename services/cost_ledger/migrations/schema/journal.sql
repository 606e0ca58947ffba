-- One row per tenant: its lock orders the tenant's writes, its count leaves no gap and its hash is
-- where the chain goes on.
CREATE TABLE ledger_head (
    tenant text PRIMARY KEY,
    sequence bigint NOT NULL DEFAULT 0,
    hash bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex') CHECK (length(hash) = 32),
    closed_before timestamptz,
    budget_changes bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- A columnar journal: the row is the entry, and each account has a column for what the entry posts
-- to it. That its postings sum to zero is then a constraint of the row. The unit XXX (ISO 4217: no
-- currency) counts calls whose price is unknown.
CREATE TABLE entry (
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
    service_class text NOT NULL DEFAULT '',
    region text NOT NULL DEFAULT '',
    policy_version text NOT NULL DEFAULT '',
    windows json NOT NULL,
    sequence bigint NOT NULL CHECK (sequence > 0),
    kind text NOT NULL,
    quantities jsonb,
    usage_source text,
    provider_request_id text,
    dispatched boolean NOT NULL,
    expire_time timestamptz,
    hold_unit text NOT NULL,
    held numeric(28, 12) NOT NULL,
    available numeric(28, 12) NOT NULL,
    unit text NOT NULL,
    spend numeric(28, 12) NOT NULL,
    provisional numeric(28, 12) NOT NULL,
    suspense numeric(28, 12) NOT NULL,
    payable numeric(28, 12) NOT NULL,
    price_version_id text NOT NULL,
    occur_time timestamptz NOT NULL,
    create_time timestamptz NOT NULL,
    corrects_sequence bigint NOT NULL,
    reason text NOT NULL,
    hash bytea NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (tenant, sequence, create_time),
    CONSTRAINT held_is_balanced CHECK (held + available = 0),
    CONSTRAINT cost_is_balanced CHECK (spend + provisional + suspense + payable = 0),
    CONSTRAINT suspense_counts_calls CHECK ((unit = 'XXX') = (suspense <> 0)),
    CONSTRAINT units_are_given
        CHECK ((held = 0 OR hold_unit <> '') AND (payable = 0 OR unit <> ''))
) PARTITION BY RANGE (create_time);

COMMENT ON COLUMN entry.held IS 'Money set aside for calls that have not ended; its contra account is available';
COMMENT ON COLUMN entry.spend IS 'True cost of calls';
COMMENT ON COLUMN entry.provisional IS 'Worst case of calls that were made and whose usage has not arrived';
COMMENT ON COLUMN entry.suspense IS 'Calls of unknown price, counted in the unit XXX';
COMMENT ON COLUMN entry.payable IS 'What the providers are owed, against spend, provisional and suspense';

-- Partial, so that looking an entry up by its sequence can only mean the primary key: of a table
-- without statistics the planner may pick any index that starts with tenant.
CREATE INDEX entry_by_episode ON entry (tenant, episode_id, sequence) WHERE episode_id <> '';
CREATE INDEX entry_cost_by_time ON entry (tenant, occur_time) WHERE unit <> '';
CREATE INDEX entry_by_corrected ON entry (tenant, corrects_sequence)
WHERE corrects_sequence > 0;
CREATE INDEX entry_unpriced ON entry (tenant, sequence) WHERE suspense > 0;

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
    service_class text NOT NULL DEFAULT '',
    region text NOT NULL DEFAULT '',
    policy_version text NOT NULL DEFAULT '',
    windows json NOT NULL,
    worst_case jsonb NOT NULL,
    amount numeric(28, 12),
    currency text,
    state text NOT NULL,
    dispatched boolean NOT NULL,
    price_version_id text NOT NULL,
    create_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    posted_sequence bigint NOT NULL,
    -- Models that may answer instead of the one that was asked.
    fallbacks json NOT NULL DEFAULT '[]',
    -- The answers to the requests that made and captured it: with rows of their own in idempotency,
    -- a call wrote two more rows, each with the key twice.
    reserve_hash text NOT NULL,
    reserve_sequence bigint NOT NULL CHECK (reserve_sequence > 0),
    capture_hash text NOT NULL,
    capture_sequence bigint NOT NULL,
    PRIMARY KEY (tenant, key),
    CHECK ((amount IS NULL) = (currency IS NULL))
) WITH (fillfactor = 80);

CREATE INDEX hold_open_by_expiry ON hold (expire_time) WHERE state = 'open';
CREATE INDEX hold_open_by_episode ON hold (tenant, episode_id) WHERE state = 'open';

-- Answers that no hold has: rejections, and entries without a hold.
-- Without partitions: a unique index over time would have to contain the time, and so would admit
-- the same key again in the next month; partitions by tenant took a ninth of a call's time in the
-- database, since every look-up and every row opened them.
CREATE TABLE idempotency (
    tenant text NOT NULL,
    operation text NOT NULL,
    key text NOT NULL,
    request_hash text NOT NULL,
    sequence bigint NOT NULL,
    occur_time timestamptz,
    rejection json,
    PRIMARY KEY (tenant, operation, key),
    CHECK ((sequence = 0) = (rejection IS NOT NULL))
);

CREATE VIEW posting WITH (security_invoker) AS
SELECT e.tenant, e.sequence, e.create_time, e.occur_time, p.account, p.unit, p.amount
FROM entry e
CROSS JOIN LATERAL (VALUES
    ('held', e.hold_unit, e.held), ('available', e.hold_unit, e.available),
    ('spend', e.unit, e.spend), ('provisional', e.unit, e.provisional),
    ('suspense', e.unit, e.suspense), ('payable', e.unit, e.payable)
) AS p(account, unit, amount)
WHERE p.amount <> 0;

-- The month of an entry is that of its create_time in UTC.
CREATE FUNCTION make_entry_partitions(months_ahead integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    first timestamp := date_trunc('month', ledger_clock() AT TIME ZONE 'UTC');
    start timestamp;
    name text;
BEGIN
    FOR month IN 0 .. months_ahead LOOP
        start := first + make_interval(months => month);
        name := to_char(start, '"entry_"YYYY"_"MM');
        IF to_regclass(name) IS NULL THEN
            EXECUTE format(
                'CREATE TABLE %I PARTITION OF entry FOR VALUES FROM (%L) TO (%L)',
                name, start || '+00', (start + interval '1 month') || '+00');
            PERFORM reject_truncate(to_regclass(name));
        END IF;
    END LOOP;
END
$$;
SELECT make_entry_partitions(12);

-- A retry that names a time in a closed period is rejected by that time, so its key has nothing
-- left to prevent. A key whose request named no time is kept for ever.
CREATE FUNCTION reject_forgetting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.occur_time < (SELECT closed_before FROM ledger_head WHERE tenant = OLD.tenant) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'idempotency is immutable until its period is closed';
END
$$;
CREATE TRIGGER kept BEFORE DELETE ON idempotency
FOR EACH ROW EXECUTE FUNCTION reject_forgetting();
CREATE TRIGGER immutable BEFORE UPDATE ON idempotency
FOR EACH ROW EXECUTE FUNCTION reject_change();
SELECT reject_truncate('idempotency');

CREATE FUNCTION prune_keys(count_max integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH pruned AS (
        DELETE FROM idempotency i USING (
            SELECT old.tenant, old.operation, old.key
            FROM idempotency old JOIN ledger_head head USING (tenant)
            WHERE old.occur_time < head.closed_before LIMIT count_max
        ) closed
        WHERE (i.tenant, i.operation, i.key) = (closed.tenant, closed.operation, closed.key)
        RETURNING 1
    )
    SELECT count(*) FROM pruned
$$;

CREATE INDEX idempotency_by_time ON idempotency (occur_time) WHERE occur_time IS NOT NULL;

-- The sweep looks at every tenant; what it finds is changed within each tenant's scope.
CREATE FUNCTION overdue_holds(count_max integer) RETURNS TABLE (tenant text, key text)
STABLE LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT h.tenant, h.key FROM hold h
    WHERE h.state = 'open' AND h.expire_time <= ledger_clock()
    ORDER BY h.expire_time LIMIT count_max
$$;

-- PostgreSQL lets PUBLIC execute a new function. One that runs as its owner (SECURITY DEFINER)
-- would show any role of the server what row-level security hides from it, so each is revoked.
REVOKE EXECUTE ON FUNCTION make_entry_partitions(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION make_entry_partitions(integer) TO cost_ledger_service;
REVOKE EXECUTE ON FUNCTION prune_keys(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION prune_keys(integer) TO cost_ledger_service;
REVOKE EXECUTE ON FUNCTION overdue_holds(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION overdue_holds(integer) TO cost_ledger_service;

SELECT make_immutable('entry');
SELECT protect_keyed('ledger_head');
SELECT protect_keyed('hold');
SELECT protect_keyed('idempotency');
SELECT protect('entry');
-- An insert checks its own rows, which the function does without a subquery; reads keep the array,
-- which an index can serve.
ALTER POLICY of_tenants_in_scope ON entry WITH CHECK (is_in_scope(tenant));

GRANT SELECT, INSERT ON entry, idempotency TO cost_ledger_service;
GRANT SELECT, INSERT, UPDATE ON ledger_head TO cost_ledger_service;
GRANT SELECT, INSERT ON hold TO cost_ledger_service;
GRANT UPDATE (state, dispatched, posted_sequence, capture_hash, capture_sequence)
ON hold TO cost_ledger_service;
GRANT SELECT ON posting TO cost_ledger_service;
