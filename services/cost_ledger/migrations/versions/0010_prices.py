"""Bands, hours, service classes and regions of prices; validity that is itself versioned."""

from alembic import op

revision = "0010"
down_revision = "0004"

STATEMENTS = (
    """
    ALTER TABLE price_version
        ADD COLUMN service_class text NOT NULL DEFAULT '',
        ADD COLUMN region text NOT NULL DEFAULT ''
    """,
    # When a version holds, and in `recorded` when that was what the price book knew.
    """
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
    )
    """,
    "CREATE INDEX price_validity_by_version ON price_validity (price_version_id, lower(recorded))",
    """
    INSERT INTO price_validity
    SELECT id, tenant, sku, '', '', validity, end_is_given, tstzrange(create_time, NULL)
    FROM price_version
    """,
    "ALTER TABLE price_version DROP COLUMN validity, DROP COLUMN end_is_given",
    "DROP TRIGGER immutable ON price_component",
    """
    ALTER TABLE price_component
        ADD COLUMN ordinal integer NOT NULL DEFAULT 0,
        ADD COLUMN from_tokens bigint NOT NULL DEFAULT 0 CHECK (from_tokens >= 0),
        ADD COLUMN until_tokens bigint CHECK (until_tokens > from_tokens),
        ADD COLUMN weekdays smallint[],
        ADD COLUMN start_minute smallint,
        ADD COLUMN end_minute smallint
    """,
    """
    UPDATE price_component c SET ordinal = numbered.ordinal
    FROM (
        SELECT price_version_id, dimension,
               row_number() OVER (PARTITION BY price_version_id ORDER BY dimension) AS ordinal
        FROM price_component
    ) numbered
    WHERE (c.price_version_id, c.dimension) = (numbered.price_version_id, numbered.dimension)
    """,
    """
    ALTER TABLE price_component
        ALTER COLUMN ordinal DROP DEFAULT,
        DROP CONSTRAINT price_component_pkey,
        ADD PRIMARY KEY (price_version_id, ordinal)
    """,
    "DROP TRIGGER not_truncated ON price_component",
    "SELECT make_immutable('price_version')",
    "SELECT make_immutable('price_component')",
    # Of a validity only one thing ever changes: that it is no longer what is known.
    """
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
    $$
    """,
    """
    CREATE TRIGGER only_closes BEFORE UPDATE OR DELETE ON price_validity
    FOR EACH ROW EXECUTE FUNCTION reject_rewrite()
    """,
    "SELECT reject_truncate('price_validity')",
    "SELECT protect('price_validity')",
    "CREATE POLICY list_prices ON price_validity FOR SELECT USING (tenant = '')",
    "GRANT SELECT, INSERT, UPDATE (recorded) ON price_validity TO cost_ledger_service",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
