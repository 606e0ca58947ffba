"""Deleted versions, scheduled policies, histograms, proposed descriptions."""

from alembic import op

revision = "0003"
down_revision = "0002"

STATEMENTS = (
    "ALTER TABLE tools ADD COLUMN delete_time timestamptz",
    # A purged version keeps its row: its number is never given to other content.
    "ALTER TABLE tools ALTER COLUMN spec DROP NOT NULL",
    "CREATE INDEX tools_deleted ON tools (delete_time) WHERE delete_time IS NOT NULL",
    """
    CREATE TABLE policy_activations (
        sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        tenant text NOT NULL,
        name text NOT NULL,
        version integer NOT NULL,
        effective_time timestamptz NOT NULL,
        create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
        created_by text NOT NULL
    )
    """,
    "CREATE INDEX policy_activations_by_tenant ON policy_activations (tenant, effective_time)",
    """
    INSERT INTO policy_activations (tenant, name, version, effective_time, created_by)
    SELECT tenant, name, version, '2025-11-01T00:00:00Z', 'podium' FROM active_policies
    """,
    "DROP TABLE active_policies",
    # Measurements live ten minutes: none is worth carrying over.
    "DROP TABLE tool_facts",
    """
    CREATE TABLE tool_facts (
        owner text NOT NULL,
        tool_name text NOT NULL,
        model_alias text NOT NULL,
        reporter text NOT NULL,
        tenant text NOT NULL,
        facts bytea NOT NULL,
        report_time timestamptz NOT NULL,
        PRIMARY KEY (owner, tool_name, model_alias, reporter, tenant)
    )
    """,
    "CREATE INDEX tool_facts_by_age ON tool_facts (report_time)",
    """
    CREATE TABLE description_proposals (
        id uuid PRIMARY KEY,
        tenant text NOT NULL,
        tool_name text NOT NULL,
        tool_version integer NOT NULL,
        model_alias text NOT NULL,
        current_description text NOT NULL,
        proposed_description text NOT NULL,
        writer_tool text NOT NULL,
        episode_ids text[] NOT NULL,
        succeeded_count integer NOT NULL,
        state text NOT NULL DEFAULT 'pending',
        create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
        created_by text NOT NULL,
        reviewed_by text NOT NULL DEFAULT ''
    )
    """,
    "CREATE INDEX description_proposals_by_tenant ON description_proposals (tenant, id)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before 0003; schedules are not kept")
