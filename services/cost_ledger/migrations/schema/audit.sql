-- Signed daily roots over the ends of all tenants' journals, and each tenant's leaf under them.
CREATE TABLE anchor (
    day date PRIMARY KEY,
    root bytea NOT NULL,
    tenant_count bigint NOT NULL,
    previous_root bytea NOT NULL,
    signature bytea NOT NULL,
    public_key text NOT NULL,
    create_time timestamptz NOT NULL
);

CREATE TABLE anchor_head (
    day date NOT NULL REFERENCES anchor,
    tenant text NOT NULL,
    tenant_index bigint NOT NULL,
    first_sequence bigint NOT NULL,
    last_sequence bigint NOT NULL,
    head_hash bytea NOT NULL,
    entries_root bytea NOT NULL,
    tenant_path bytea[] NOT NULL,
    PRIMARY KEY (tenant, day)
);

-- The end of every tenant's journal and how far the last root reached.
CREATE FUNCTION heads_to_anchor() RETURNS TABLE (
    tenant text, anchored bigint, sequence bigint, hash bytea
)
STABLE SECURITY DEFINER SET search_path = public, pg_temp LANGUAGE sql AS $$
    SELECT h.tenant,
           coalesce((SELECT max(a.last_sequence) FROM anchor_head a
                     WHERE a.tenant = h.tenant), 0),
           h.sequence, h.hash
    FROM ledger_head h WHERE h.sequence > 0 ORDER BY h.tenant COLLATE "C"
$$;
REVOKE EXECUTE ON FUNCTION heads_to_anchor() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION heads_to_anchor() TO cost_ledger_service;

SELECT protect('anchor_head');
SELECT make_immutable('anchor');
SELECT make_immutable('anchor_head');

GRANT SELECT, INSERT ON anchor, anchor_head TO cost_ledger_service;
