-- Roles belong to the whole server, so another database or an administrator may have created it,
-- or creates it now; only its creator may comment on it.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'cost_ledger_service') THEN
        CREATE ROLE cost_ledger_service LOGIN;
        COMMENT ON ROLE cost_ledger_service IS
        'What the cost ledger logs in as: owns nothing, bypasses no row-level security';
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END
$$;

-- The ledger's clock; tests replace it to step over midnights and months.
CREATE FUNCTION ledger_clock() RETURNS timestamptz VOLATILE LANGUAGE sql
RETURN clock_timestamp();

-- Unset means no tenant, so a query that forgot its scope finds nothing.
CREATE FUNCTION tenants_in_scope() RETURNS text[] STABLE LANGUAGE sql
RETURN CAST(nullif(current_setting('ledger.tenants', true), '') AS text[]);

-- A scalar subquery is evaluated once per statement, not once per row.
CREATE FUNCTION protect(target regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', target);
    EXECUTE format(
        'CREATE POLICY of_tenants_in_scope ON %s
         USING (tenant = ANY (CAST((SELECT tenants_in_scope()) AS text[])))', target);
END
$$;

CREATE FUNCTION reject_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is immutable; post a correction', TG_TABLE_NAME;
END
$$;

-- Row triggers also guard a partitioned table's partitions; those of TRUNCATE do not.
CREATE FUNCTION reject_truncate(target regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER not_truncated BEFORE TRUNCATE ON %s
                    FOR EACH STATEMENT EXECUTE FUNCTION reject_change()', target);
END
$$;

CREATE FUNCTION make_immutable(target regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON %s
                    FOR EACH ROW EXECUTE FUNCTION reject_change()', target);
    PERFORM reject_truncate(target);
END
$$;
