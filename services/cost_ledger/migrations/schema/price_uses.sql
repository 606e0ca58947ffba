-- Whether the journal of any tenant names a price version: whoever deletes one sees but their own
-- rows. An entry is younger than what it names; the hour is for clocks that differ.
CREATE FUNCTION price_is_used(price_id text, known_since timestamptz) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM entry e
        WHERE e.price_version_id = price_id AND e.create_time >= known_since - interval '1 hour'
    )
$$;
REVOKE EXECUTE ON FUNCTION price_is_used(text, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION price_is_used(text, timestamptz) TO cost_ledger_service;
