CREATE EXTENSION IF NOT EXISTS btree_gist;

-- An empty tenant is the list price: NULLs would never conflict with each other.
CREATE TABLE price_version (
    id text PRIMARY KEY,
    tenant text NOT NULL,
    sku text NOT NULL,
    currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    source text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT ledger_clock(),
    service_class text NOT NULL DEFAULT '',
    region text NOT NULL DEFAULT ''
);
CREATE INDEX price_version_by_sku ON price_version (sku, tenant);

-- When a version holds, and in `recorded` when that was what the price book knew.
CREATE TABLE price_validity (
    price_version_id text NOT NULL REFERENCES price_version,
    tenant text NOT NULL,
    sku text NOT NULL,
    service_class text NOT NULL,
    region text NOT NULL,
    valid tstzrange NOT NULL CHECK (NOT isempty(valid)),
    end_is_given boolean NOT NULL,
    recorded tstzrange NOT NULL CHECK (NOT isempty(recorded)),
    EXCLUDE USING gist (
        tenant WITH =, sku WITH =, service_class WITH =, region WITH =,
        valid WITH &&, recorded WITH &&
    )
);
CREATE INDEX price_validity_by_version ON price_validity (price_version_id, lower(recorded));

CREATE TABLE price_component (
    price_version_id text NOT NULL REFERENCES price_version,
    dimension text NOT NULL,
    unit_price numeric(30, 18) NOT NULL CHECK (unit_price >= 0),
    per numeric(28, 12) NOT NULL CHECK (per > 0),
    ordinal integer NOT NULL,
    from_tokens bigint NOT NULL DEFAULT 0 CHECK (from_tokens >= 0),
    until_tokens bigint CHECK (until_tokens > from_tokens),
    weekdays smallint[],
    start_minute smallint,
    end_minute smallint,
    PRIMARY KEY (price_version_id, ordinal)
);

SELECT make_immutable('price_version');
SELECT make_immutable('price_component');

-- Of a validity only one thing ever changes: that it is no longer what is known.
CREATE FUNCTION reject_rewrite() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'UPDATE' OR NOT upper_inf(OLD.recorded)
        OR lower(NEW.recorded) IS DISTINCT FROM lower(OLD.recorded)
        OR to_jsonb(NEW) - 'recorded' IS DISTINCT FROM to_jsonb(OLD) - 'recorded'
    THEN
        RAISE EXCEPTION 'price_validity is immutable; add a price that corrects it';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER only_closes BEFORE UPDATE OR DELETE ON price_validity
FOR EACH ROW EXECUTE FUNCTION reject_rewrite();
SELECT reject_truncate('price_validity');

-- A number that changes with every price, so that a cache asks for it instead of the prices. It is
-- raised in the transaction of the change: a sequence would be seen before the change is.
CREATE TABLE price_revision (revision bigint NOT NULL);
INSERT INTO price_revision VALUES (1);

CREATE FUNCTION revise_prices() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE price_revision SET revision = revision + 1;
    RETURN NULL;
END
$$;
REVOKE EXECUTE ON FUNCTION revise_prices() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION revise_prices() TO cost_ledger_service;

CREATE TRIGGER revise_prices AFTER INSERT OR UPDATE ON price_validity
FOR EACH STATEMENT EXECUTE FUNCTION revise_prices();

SELECT protect('price_version');
SELECT protect('price_validity');
CREATE POLICY list_prices ON price_version FOR SELECT USING (tenant = '');
CREATE POLICY list_prices ON price_validity FOR SELECT USING (tenant = '');
-- A component is as visible as its version.
ALTER TABLE price_component ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_visible_version ON price_component USING (
    EXISTS (SELECT FROM price_version v WHERE v.id = price_component.price_version_id)
);

GRANT SELECT, INSERT ON price_version, price_component TO cost_ledger_service;
GRANT SELECT, INSERT, UPDATE (recorded) ON price_validity TO cost_ledger_service;
GRANT SELECT ON price_revision TO cost_ledger_service;

-- True if the journal of any tenant names a price version: a caller who deletes one sees only their
-- own rows. An entry is younger than what it names; the hour is for clocks that differ.
CREATE FUNCTION price_is_used(price_id text, known_since timestamptz) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM entry e
        WHERE e.price_version_id = price_id AND e.create_time >= known_since - interval '1 hour'
    )
$$;
REVOKE EXECUTE ON FUNCTION price_is_used(text, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION price_is_used(text, timestamptz) TO cost_ledger_service;
