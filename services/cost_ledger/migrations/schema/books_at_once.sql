-- What a group reads in one round trip, of one snapshot and without a lock. Whoever writes by it
-- names what it read of each head, and fails when another writer has moved one meanwhile (ADR 54).

-- A change of a budget moves no head's sequence, yet what was decided by the old one must not be
-- written after it. Of any version of the service: it has the lock on the head when it changes one.
ALTER TABLE ledger_head ADD COLUMN budget_changes bigint NOT NULL DEFAULT 0;

CREATE FUNCTION count_budget_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE ledger_head SET budget_changes = budget_changes + 1 WHERE tenant = NEW.tenant;
    RETURN NULL;
END
$$;
CREATE TRIGGER count_budget_change AFTER UPDATE OF version ON budget
FOR EACH ROW EXECUTE FUNCTION count_budget_change();

-- Stable, so all of it is of the snapshot of the statement that calls it. The scope outlasts the
-- statement, since the one that writes is a transaction of its own; the next group sets its own.
CREATE FUNCTION read_books(
    tenants text[], asked_tenants text[], operations text[], keys text[], hold_keys text[],
    scopes json, OUT now timestamptz, OUT heads json, OUT known json, OUT statuses json
) STABLE LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('ledger.tenants', CAST(tenants AS text), false);
    heads := (
        SELECT json_agg(head) FROM (
            SELECT h.tenant, h.sequence, encode(h.hash, 'hex') AS hash, h.closed_before,
                   h.budget_changes
            FROM ledger_head h WHERE h.tenant = ANY (tenants)
        ) head
    );
    now := ledger_clock();
    known := read_keys(asked_tenants, operations, keys, hold_keys);
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
