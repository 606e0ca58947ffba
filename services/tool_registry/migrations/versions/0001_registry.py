"""Tools, policies and measured facts."""

from alembic import op

revision = "0001"
down_revision = None

STATEMENTS = (
    """
    CREATE TABLE tools (
        owner text NOT NULL,
        name text NOT NULL,
        version integer NOT NULL CHECK (version > 0),
        spec bytea NOT NULL,
        digest text NOT NULL,
        create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
        created_by text NOT NULL,
        deprecate_time timestamptz,
        PRIMARY KEY (owner, name, version),
        UNIQUE (owner, name, digest)
    )
    """,
    """
    CREATE TABLE policies (
        tenant text NOT NULL,
        name text NOT NULL,
        version integer NOT NULL CHECK (version > 0),
        spec bytea NOT NULL,
        digest text NOT NULL,
        create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
        created_by text NOT NULL,
        PRIMARY KEY (tenant, name, version),
        UNIQUE (tenant, name, digest)
    )
    """,
    """
    CREATE TABLE active_policies (
        tenant text PRIMARY KEY,
        name text NOT NULL,
        version integer NOT NULL
    )
    """,
    """
    CREATE TABLE tool_facts (
        reporter text NOT NULL,
        tenant text NOT NULL,
        tool_name text NOT NULL,
        model_alias text NOT NULL,
        sample_count bigint NOT NULL,
        latency_p50_s double precision NOT NULL,
        latency_p95_s double precision NOT NULL,
        success_rate double precision NOT NULL,
        report_time timestamptz NOT NULL DEFAULT clock_timestamp(),
        PRIMARY KEY (reporter, tenant, tool_name, model_alias)
    )
    """,
    # One row that every write bumps: readers keep what they have while it stands still.
    "CREATE TABLE catalogue_version (version bigint NOT NULL)",
    "INSERT INTO catalogue_version VALUES (1)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    for table in ("catalogue_version", "tool_facts", "active_policies", "policies", "tools"):
        op.execute(f"DROP TABLE {table}")
