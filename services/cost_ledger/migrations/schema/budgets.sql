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
    start_time timestamptz,
    end_time timestamptz,
    version bigint NOT NULL DEFAULT 1,
    -- Shares of the limit that holds when they are passed.
    soft_limit_shares numeric(5, 4)[] NOT NULL DEFAULT '{}',
    -- What is added to the limit until a time. The last one stays here when it is over.
    raise_id text,
    raise_amount numeric(28, 12) CHECK (raise_amount >= 0),
    raise_until timestamptz,
    raise_reason text,
    raised_by text,
    PRIMARY KEY (tenant, id)
);

-- A named budget's scope_id is its own id, so that one index finds every covering budget.
CREATE INDEX budget_open ON budget (tenant, scope, scope_id) WHERE close_time IS NULL;

CREATE FUNCTION budget_holds(budget, timestamptz) RETURNS boolean STABLE LANGUAGE sql
RETURN $1.close_time IS NULL
    AND ($1.start_time IS NULL OR $1.start_time <= $2)
    AND ($1.end_time IS NULL OR $2 < $1.end_time);

CREATE FUNCTION limit_at(budget, timestamptz) RETURNS numeric STABLE LANGUAGE sql
RETURN $1.hard_limit + CASE WHEN $2 < $1.raise_until THEN $1.raise_amount ELSE 0 END;

-- A row per window that money was counted in.
CREATE TABLE budget_window (
    tenant text NOT NULL,
    budget_id text NOT NULL,
    start timestamptz NOT NULL,
    posted numeric(28, 12) NOT NULL CHECK (posted >= 0),
    held numeric(28, 12) NOT NULL CHECK (held >= 0),
    -- The budget's, copied so that a window without soft limits raises no alert without a look-up.
    has_soft_limits boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant, budget_id, start)
) WITH (fillfactor = 50);

-- The bucket that an instant falls into; a total has one bucket since its creation.
CREATE FUNCTION window_start(budget, timestamptz) RETURNS timestamptz STABLE LANGUAGE sql
RETURN CASE $1.budget_window
    WHEN 'total' THEN $1.create_time
    WHEN 'rolling' THEN date_trunc('minute', $2)
    ELSE date_trunc($1.budget_window, $2, $1.time_zone)
END;

-- The oldest bucket that counts. A rolling one that has partly passed counts whole.
CREATE FUNCTION window_first(budget, timestamptz) RETURNS timestamptz STABLE LANGUAGE sql
RETURN CASE $1.budget_window
    WHEN 'rolling' THEN date_trunc('minute', $2 - make_interval(secs => $1.rolling_length_s))
    ELSE window_start($1, $2)
END;

-- Budgets that change keep every version, and from which entry on it decided.
CREATE TABLE budget_version (
    tenant text NOT NULL,
    budget_id text NOT NULL,
    version bigint NOT NULL,
    -- It decided the entries after this one, up to the next version's.
    after_sequence bigint NOT NULL,
    hard_limit numeric(28, 12) NOT NULL,
    soft_limits numeric(28, 12)[] NOT NULL,
    end_time timestamptz,
    create_time timestamptz NOT NULL,
    soft_limit_shares numeric(5, 4)[] NOT NULL,
    raise_id text,
    raise_amount numeric(28, 12),
    raise_until timestamptz,
    raise_reason text,
    raised_by text,
    PRIMARY KEY (tenant, budget_id, version)
);

-- Whoever changes a budget holds the tenant's head, so no entry is decided meanwhile.
CREATE FUNCTION keep_budget_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO budget_version
    SELECT NEW.tenant, NEW.id, NEW.version,
           CASE WHEN NEW.version = 1 THEN 0
                ELSE (SELECT sequence FROM ledger_head WHERE tenant = NEW.tenant) END,
           NEW.hard_limit, NEW.soft_limits, NEW.end_time, ledger_clock(), NEW.soft_limit_shares,
           NEW.raise_id, NEW.raise_amount, NEW.raise_until, NEW.raise_reason, NEW.raised_by;
    RETURN NULL;
END
$$;
CREATE TRIGGER keep_budget_version AFTER INSERT OR UPDATE OF version ON budget
FOR EACH ROW EXECUTE FUNCTION keep_budget_version();
SELECT make_immutable('budget_version');

CREATE TABLE budget_alert (
    tenant text NOT NULL,
    budget_id text NOT NULL,
    start timestamptz NOT NULL,
    -- The amount, or 0 of one that is a share.
    soft_limit numeric(28, 12) NOT NULL,
    -- The share of the limit, or 0 of one that is an amount.
    share numeric(5, 4) NOT NULL,
    create_time timestamptz NOT NULL DEFAULT ledger_clock(),
    sequence bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    posted numeric(28, 12) NOT NULL,
    -- That held then, raised or not.
    hard_limit numeric(28, 12) NOT NULL,
    publish_time timestamptz,
    PRIMARY KEY (tenant, budget_id, start, soft_limit, share)
);
CREATE INDEX budget_alert_owed ON budget_alert (sequence) WHERE publish_time IS NULL;

-- Rolling windows overlap: a rolling budget alerts once in each period of its length.
CREATE FUNCTION alert_start(budget, timestamptz) RETURNS timestamptz STABLE LANGUAGE sql
RETURN CASE $1.budget_window
    WHEN 'rolling' THEN to_timestamp(
        floor(extract(epoch FROM $2) / $1.rolling_length_s) * $1.rolling_length_s
    )
    ELSE $2
END;

CREATE FUNCTION has_soft_limits(budget) RETURNS boolean IMMUTABLE LANGUAGE sql
RETURN cardinality($1.soft_limits) + cardinality($1.soft_limit_shares) > 0;

CREATE FUNCTION copy_has_soft_limits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.has_soft_limits := EXISTS (
        SELECT FROM budget b
        WHERE b.tenant = NEW.tenant AND b.id = NEW.budget_id AND has_soft_limits(b)
    );
    RETURN NEW;
END
$$;
CREATE TRIGGER copy_has_soft_limits BEFORE INSERT ON budget_window
FOR EACH ROW EXECUTE FUNCTION copy_has_soft_limits();

-- Moving money raises the alerts, in the same transaction and once each. Most budgets have no soft
-- limits, and to look whether one has was a tenth of a call's cost in the database.
CREATE FUNCTION raise_alerts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO budget_alert (tenant, budget_id, start, soft_limit, share, posted, hard_limit)
    SELECT b.tenant, b.id, alert_start(b, NEW.start), soft.amount, soft.share,
           spent.posted, now.hard_limit
    FROM budget b
    CROSS JOIN LATERAL (
        SELECT sum(w.posted) AS posted FROM budget_window w
        WHERE w.tenant = b.tenant AND w.budget_id = b.id
          AND w.start BETWEEN window_first(b, NEW.start) AND NEW.start
    ) spent
    CROSS JOIN LATERAL (SELECT limit_at(b, ledger_clock()) AS hard_limit) now
    CROSS JOIN LATERAL (
        SELECT amount, 0 AS share FROM unnest(b.soft_limits) AS amount
        UNION ALL
        SELECT 0, share FROM unnest(b.soft_limit_shares) AS share
    ) soft
    WHERE b.tenant = NEW.tenant AND b.id = NEW.budget_id
      AND spent.posted >= soft.amount + soft.share * now.hard_limit
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE TRIGGER raise_alerts AFTER INSERT OR UPDATE OF posted ON budget_window
FOR EACH ROW WHEN (NEW.has_soft_limits AND NEW.posted > 0) EXECUTE FUNCTION raise_alerts();

-- The relay publishes for every tenant; another replica takes others instead of waiting.
CREATE FUNCTION owed_alerts(count_max integer) RETURNS TABLE (tenant text, sequence bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT a.tenant, a.sequence FROM budget_alert a WHERE a.publish_time IS NULL
    ORDER BY a.sequence LIMIT count_max FOR UPDATE SKIP LOCKED
$$;
REVOKE EXECUTE ON FUNCTION owed_alerts(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION owed_alerts(integer) TO cost_ledger_service;

SELECT protect_keyed('budget');
SELECT protect_keyed('budget_window');
SELECT protect('budget_version');
SELECT protect('budget_alert');

GRANT SELECT, INSERT, UPDATE ON budget, budget_window TO cost_ledger_service;
GRANT SELECT, INSERT ON budget_version, budget_alert TO cost_ledger_service;
GRANT UPDATE (publish_time) ON budget_alert TO cost_ledger_service;

-- A change of a budget moves no head's sequence, yet a decision by the old one must not be written
-- after it.
CREATE FUNCTION count_budget_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE ledger_head SET budget_changes = budget_changes + 1 WHERE tenant = NEW.tenant;
    IF has_soft_limits(OLD) <> has_soft_limits(NEW) THEN
        UPDATE budget_window SET has_soft_limits = has_soft_limits(NEW)
        WHERE tenant = NEW.tenant AND budget_id = NEW.id;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER count_budget_change AFTER UPDATE OF version ON budget
FOR EACH ROW EXECUTE FUNCTION count_budget_change();
