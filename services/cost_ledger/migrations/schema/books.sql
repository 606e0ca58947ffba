-- What a group of operations reads in one round trip: heads, keys and statuses of budgets, of one
-- snapshot. A writer without the locks names what it read of each head, and fails when another has
-- moved one meanwhile (ADR 54). In PL/pgSQL, which keeps the plans of its statements for as long as the connection lasts.

-- Ordered, so that two groups never wait for each other in a circle.
CREATE FUNCTION lock_heads(tenants text[]) RETURNS json LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT json_agg(locked) FROM (
            SELECT tenant, sequence, encode(hash, 'hex') AS hash, closed_before
            FROM ledger_head WHERE tenant = ANY (tenants) ORDER BY tenant FOR UPDATE
        ) locked
    );
END
$$;

-- The answers that keys already have, and the holds of keys: rows, which cost half of what JSON does.
-- A join lets the planner read all keys of a tenant once and compare each with each; for a few that
-- is the best plan, and a connection keeps it for the millionth. OFFSET 0 keeps a look-up apart, so
-- that it is made once for each key, by the whole key.
CREATE FUNCTION read_answers(tenants text[], operations text[], keys text[]) RETURNS idempotency[]
STABLE LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT array_agg(answered.i)
        FROM unnest(tenants, operations, keys) AS asked(tenant, operation, key)
        CROSS JOIN LATERAL (
            SELECT i FROM idempotency i
            WHERE i.tenant = asked.tenant AND i.operation = asked.operation
              AND i.key = asked.key
            OFFSET 0
        ) answered
    );
END
$$;

CREATE FUNCTION read_holds(tenants text[], keys text[]) RETURNS hold[]
STABLE LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT array_agg(held.h)
        FROM unnest(tenants, keys) AS asked(tenant, key)
        CROSS JOIN LATERAL (
            SELECT h FROM hold h WHERE h.tenant = asked.tenant AND h.key = asked.key
            OFFSET 0
        ) held
    );
END
$$;

-- The status of every budget of the asked scopes at a time (unset: now), with what calls in progress
-- hold of it and may give back.
CREATE FUNCTION read_statuses(scopes json, now timestamptz) RETURNS json
STABLE LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT json_agg(status) FROM (
            SELECT asked.tenant, asked.scope, asked.scope_id, asked.at, b.id,
                   b.limit_then AS hard_limit, b.currency, b.first, b.start, used.used, used.held, used.row_exists
            FROM json_to_recordset(scopes)
                AS asked(tenant text, scope text, scope_id text, at timestamptz)
            CROSS JOIN LATERAL (
                SELECT b.*, window_first(b, coalesce(asked.at, now)) AS first,
                       window_start(b, coalesce(asked.at, now)) AS start,
                       limit_at(b, coalesce(asked.at, now)) AS limit_then
                FROM budget b
                WHERE b.tenant = asked.tenant AND b.scope = asked.scope
                  AND b.scope_id = asked.scope_id
                  AND budget_holds(b, coalesce(asked.at, now))
                OFFSET 0
            ) b
            CROSS JOIN LATERAL (
                SELECT coalesce(sum(w.posted + w.held), 0) AS used,
                       coalesce(sum(w.held), 0) AS held,
                       coalesce(bool_or(w.start = b.start), false) AS row_exists
                FROM budget_window w
                WHERE w.tenant = b.tenant AND w.budget_id = b.id
                  AND w.start BETWEEN b.first AND b.start
            ) used
        ) status
    );
END
$$;

-- Stable, so all of it is of the snapshot of the statement that calls it. The scope outlasts the
-- statement, since the one that writes is a transaction of its own; the next group sets its own.
CREATE FUNCTION read_books(
    tenants text[], asked_tenants text[], operations text[], keys text[],
    hold_tenants text[], hold_keys text[], scopes json, OUT now timestamptz,
    OUT heads json, OUT answers idempotency[], OUT holds hold[], OUT statuses json
) STABLE LANGUAGE plpgsql AS $$
BEGIN
    tenants := set_scope(tenants, false);
    heads := (
        SELECT json_agg(head) FROM (
            SELECT h.tenant, h.sequence, encode(h.hash, 'hex') AS hash, h.closed_before,
                   h.budget_changes
            FROM ledger_head h WHERE h.tenant = ANY (tenants)
        ) head
    );
    now := ledger_clock();
    IF keys <> '{}' THEN
        answers := read_answers(asked_tenants, operations, keys);
    END IF;
    IF hold_keys <> '{}' THEN
        holds := read_holds(hold_tenants, hold_keys);
    END IF;
    IF scopes IS NOT NULL THEN
        statuses := read_statuses(scopes, now);
    END IF;
END
$$;

CREATE FUNCTION lose_race() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'another writer moved the head of a tenant first'
    USING ERRCODE = 'serialization_failure';
END
$$;

-- The same reading under the locks of the heads, until the transaction ends, and in one round trip.
-- Volatile, so it reads by a snapshot that is taken when the locks are. It makes the heads of new
-- tenants.
CREATE FUNCTION read_books_under_lock(
    tenants text[], asked_tenants text[], operations text[], keys text[],
    hold_tenants text[], hold_keys text[], scopes json, OUT now timestamptz,
    OUT heads json, OUT answers idempotency[], OUT holds hold[], OUT statuses json
) LANGUAGE plpgsql AS $$
BEGIN
    tenants := set_scope(tenants, true);
    IF coalesce(json_array_length(lock_heads(tenants)), 0) < cardinality(tenants) THEN
        INSERT INTO ledger_head (tenant) SELECT unnest(tenants) ON CONFLICT DO NOTHING;
        PERFORM lock_heads(tenants);
    END IF;
    SELECT books.now, books.heads, books.answers, books.holds, books.statuses
    INTO now, heads, answers, holds, statuses
    FROM read_books(
        tenants, asked_tenants, operations, keys, hold_tenants, hold_keys, scopes
    ) books;
END
$$;
