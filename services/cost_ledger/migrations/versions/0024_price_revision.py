"""A number that changes with every price, so that a cache asks for it instead of the prices."""

from alembic import op

revision = "0024"
down_revision = "0023"

STATEMENTS = (
    "CREATE TABLE price_revision (revision bigint NOT NULL)",
    "INSERT INTO price_revision VALUES (1)",
    # In the transaction of the change: a sequence would be seen before the change is.
    """
    CREATE FUNCTION revise_prices() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    BEGIN
        UPDATE price_revision SET revision = revision + 1;
        RETURN NULL;
    END
    $$
    """,
    "REVOKE EXECUTE ON FUNCTION revise_prices() FROM PUBLIC",
    "GRANT EXECUTE ON FUNCTION revise_prices() TO cost_ledger_service",
    """
    CREATE TRIGGER revise_prices AFTER INSERT OR UPDATE ON price_validity
    FOR EACH STATEMENT EXECUTE FUNCTION revise_prices()
    """,
    "GRANT SELECT ON price_revision TO cost_ledger_service",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
