-- The same reading under the locks of the heads, until the transaction ends, and in one round trip.
-- Volatile, so it reads by a snapshot that is taken when the locks are.
CREATE FUNCTION read_books_under_lock(
    tenants text[], asked_tenants text[], operations text[], keys text[], hold_keys text[],
    scopes json, OUT now timestamptz, OUT heads json, OUT known json, OUT statuses json
) LANGUAGE plpgsql AS $$
BEGIN
    -- Of new tenants too: it makes the heads that are missing.
    PERFORM open_books(tenants, '{}', '{}', '{}', '{}', NULL);
    SELECT books.now, books.heads, books.known, books.statuses
    INTO now, heads, known, statuses
    FROM read_books(tenants, asked_tenants, operations, keys, hold_keys, scopes) books;
END
$$;
