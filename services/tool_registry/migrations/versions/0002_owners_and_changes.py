"""Facts belong to a tool's owner; tools say which change touched them last."""

from alembic import op

revision = "0002"
down_revision = "0001"

STATEMENTS = (
    "ALTER TABLE tools ADD COLUMN change bigint NOT NULL DEFAULT 1",
    "CREATE INDEX tools_by_change ON tools (owner, change)",
    "CREATE INDEX tools_by_name ON tools (name)",
    "ALTER TABLE catalogue_version ADD COLUMN facts_version bigint NOT NULL DEFAULT 1",
    # Measurements live ten minutes: none is worth carrying over.
    "DROP TABLE tool_facts",
    """
    CREATE TABLE tool_facts (
        owner text NOT NULL,
        tool_name text NOT NULL,
        model_alias text NOT NULL,
        reporter text NOT NULL,
        tenant text NOT NULL,
        sample_count bigint NOT NULL,
        latency_p50_s double precision NOT NULL,
        latency_p95_s double precision NOT NULL,
        success_rate double precision NOT NULL,
        mean_cost numeric(28, 12),
        currency text,
        report_time timestamptz NOT NULL,
        PRIMARY KEY (owner, tool_name, model_alias, reporter, tenant)
    )
    """,
    "CREATE INDEX tool_facts_by_age ON tool_facts (report_time)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before 0002; facts are not kept")
