"""Budgets that change keep every version, and from which entry on it decided."""

from alembic import op

revision = "0027"
down_revision = "0026"

STATEMENTS = (
    "ALTER TABLE budget ADD COLUMN version bigint NOT NULL DEFAULT 1",
    """
    CREATE TABLE budget_version (
        tenant text NOT NULL,
        budget_id text NOT NULL,
        version bigint NOT NULL,
        -- It decided the entries after this one, up to the next version's.
        after_sequence bigint NOT NULL,
        hard_limit numeric(28, 12) NOT NULL,
        soft_limits numeric(28, 12)[] NOT NULL,
        end_time timestamptz,
        create_time timestamptz NOT NULL,
        PRIMARY KEY (tenant, budget_id, version)
    )
    """,
    """
    INSERT INTO budget_version
    SELECT tenant, id, 1, 0, hard_limit, soft_limits, end_time, create_time FROM budget
    """,
    # Whoever changes a budget holds the tenant's head, so no entry is decided meanwhile.
    """
    CREATE FUNCTION keep_budget_version() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO budget_version
        SELECT NEW.tenant, NEW.id, NEW.version,
               CASE WHEN NEW.version = 1 THEN 0
                    ELSE (SELECT sequence FROM ledger_head WHERE tenant = NEW.tenant) END,
               NEW.hard_limit, NEW.soft_limits, NEW.end_time, ledger_clock();
        RETURN NULL;
    END
    $$
    """,
    """
    CREATE TRIGGER keep_budget_version AFTER INSERT OR UPDATE OF version ON budget
    FOR EACH ROW EXECUTE FUNCTION keep_budget_version()
    """,
    "SELECT protect('budget_version')",
    "SELECT make_immutable('budget_version')",
    "GRANT SELECT, INSERT ON budget_version TO cost_ledger_service",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
