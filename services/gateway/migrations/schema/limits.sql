CREATE TABLE tenant_limits (
    tenant text PRIMARY KEY,
    requests_per_s double precision NOT NULL,
    burst integer NOT NULL,
    concurrency integer NOT NULL,
    running_episodes integer NOT NULL DEFAULT 10000,
    -- NULL: what the episodes service allows every tenant.
    files bigint,
    file_bytes bigint
);

-- Buckets and leases are written all the time and lost without harm: a restart of PostgreSQL
-- after a crash refills the buckets.
CREATE UNLOGGED TABLE rate_bucket (
    tenant text PRIMARY KEY,
    tokens double precision NOT NULL,
    granted integer NOT NULL,
    refill_time timestamptz NOT NULL
);

CREATE UNLOGGED TABLE concurrency_lease (
    tenant text NOT NULL,
    replica uuid NOT NULL,
    slots integer NOT NULL,
    expire_time timestamptz NOT NULL,
    PRIMARY KEY (tenant, replica)
);

-- Grants a replica up to `wanted` more slots while all replicas together stay within `total`;
-- returns the slots it holds then.
CREATE FUNCTION take_slots(
    for_tenant text, by_replica uuid, wanted integer, total integer, lease_s double precision
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    taken integer;
    held integer;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(for_tenant, 7263002));
    DELETE FROM concurrency_lease
        WHERE tenant = for_tenant AND expire_time < clock_timestamp() AND replica <> by_replica;
    SELECT coalesce(sum(slots), 0) INTO taken FROM concurrency_lease WHERE tenant = for_tenant;
    INSERT INTO concurrency_lease AS mine
        VALUES (for_tenant, by_replica, least(wanted, greatest(total - taken, 0)),
                clock_timestamp() + make_interval(secs => lease_s))
        ON CONFLICT (tenant, replica) DO UPDATE SET
            slots = mine.slots + excluded.slots, expire_time = excluded.expire_time
        RETURNING slots INTO held;
    RETURN held;
END $$;
