-- Whether one more of the tenant's episodes may run: fewer than the limit do, or it is there already.
-- Starts of one tenant count one after the other, so that none of them overlooks another: the lock is held until the
-- caller's transaction ends, and what came before it is counted, since each statement of a volatile function sees
-- what is committed by then.
CREATE FUNCTION episode_has_room(of_tenant text, episode uuid, running_limit integer) RETURNS boolean
VOLATILE LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(of_tenant, 5150003));
    RETURN (SELECT count(*) FROM episodes WHERE tenant = of_tenant AND stop_reason IS NULL) < running_limit
        OR EXISTS (SELECT FROM episodes WHERE id = episode);
END
$$;
