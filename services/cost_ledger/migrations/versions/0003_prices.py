"""Versioned prices; validity ranges of one tenant and SKU cannot overlap."""

from alembic import op

revision = "0003"
down_revision = "0002"

STATEMENTS = (
    "CREATE EXTENSION IF NOT EXISTS btree_gist",
    # An empty tenant is the list price: NULLs would never conflict with each other.
    """
    CREATE TABLE price_version (
        id text PRIMARY KEY,
        tenant text NOT NULL,
        sku text NOT NULL,
        currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
        validity tstzrange NOT NULL CHECK (NOT isempty(validity)),
        end_is_given boolean NOT NULL,
        source text NOT NULL,
        create_time timestamptz NOT NULL DEFAULT ledger_clock(),
        EXCLUDE USING gist (tenant WITH =, sku WITH =, validity WITH &&)
    )
    """,
    "CREATE INDEX price_version_by_sku ON price_version (sku, tenant)",
    """
    CREATE TABLE price_component (
        price_version_id text NOT NULL REFERENCES price_version,
        dimension text NOT NULL,
        unit_price numeric(30, 18) NOT NULL CHECK (unit_price >= 0),
        per numeric(28, 12) NOT NULL CHECK (per > 0),
        PRIMARY KEY (price_version_id, dimension)
    )
    """,
    "SELECT make_immutable('price_component')",
    "SELECT protect('price_version')",
    "CREATE POLICY list_prices ON price_version FOR SELECT USING (tenant = '')",
    # A component is as visible as its version.
    "ALTER TABLE price_component ENABLE ROW LEVEL SECURITY",
    """
    CREATE POLICY of_visible_version ON price_component USING (
        EXISTS (SELECT FROM price_version v WHERE v.id = price_component.price_version_id)
    )
    """,
    "GRANT SELECT, INSERT ON price_version, price_component TO cost_ledger_service",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
