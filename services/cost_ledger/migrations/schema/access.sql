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

-- Sets the tenants whose rows may be seen, until the transaction ends or for the session. The
-- setting has a separator before and after each, so that no name is found within another.
CREATE FUNCTION set_scope(tenants text[], is_local boolean) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    IF strpos(array_to_string(tenants, ''), E'\x1f') > 0 THEN
        RAISE EXCEPTION 'the name of a tenant has the control character U+001F'
        USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM set_config(
        'ledger.tenants',
        CASE WHEN cardinality(tenants) = 0 THEN ''
             ELSE E'\x1f' || array_to_string(tenants, E'\x1f') || E'\x1f' END,
        is_local
    );
    RETURN tenants;
END
$$;

-- Unset means no tenant, so a query that forgot its scope finds nothing.
CREATE FUNCTION is_in_scope(tenant text) RETURNS boolean STABLE LANGUAGE sql
RETURN strpos(current_setting('ledger.tenants', true), E'\x1f' || $1 || E'\x1f') > 0;

-- The scope of list prices, '', is nothing between two separators.
CREATE FUNCTION tenants_in_scope() RETURNS text[] STABLE LANGUAGE sql
BEGIN ATOMIC
    SELECT CASE scope.names
        WHEN '' THEN NULL
        WHEN E'\x1f\x1f' THEN ARRAY['']
        ELSE string_to_array(substr(scope.names, 2, length(scope.names) - 2), E'\x1f')
    END
    FROM current_setting('ledger.tenants', true) AS scope(names);
END;

-- For tables that are scanned: a scalar subquery is evaluated once per statement, not once per row.
CREATE FUNCTION protect(target regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', target);
    EXECUTE format(
        'CREATE POLICY of_tenants_in_scope ON %s
         USING (tenant = ANY (CAST((SELECT tenants_in_scope()) AS text[])))', target);
END
$$;

-- For tables whose rows are looked up by key. A subquery in every table's policy was a seventh of what
-- a call cost the database. Nor can an index serve the condition: an update that joins the keys of
-- its rows could else read every row of the tenants in scope and compare each with each key, which
-- looks cheaper on small tables, and a connection keeps such a plan for the millionth row.
CREATE FUNCTION protect_keyed(target regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', target);
    EXECUTE format('CREATE POLICY of_tenants_in_scope ON %s USING (is_in_scope(tenant))', target);
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
