"""MCP servers whose lists of tools are followed, and which process follows each."""

from alembic import op

revision = "0004"
down_revision = "0003"

STATEMENTS = (
    # The owner is a tenant; the empty owner is the platform. `listed` is what the registry was
    # told last: digests of specs by tool name, empty before the first time.
    """
    CREATE TABLE followed_servers (
        id uuid PRIMARY KEY,
        owner text NOT NULL,
        definition bytea NOT NULL,
        listed jsonb NOT NULL DEFAULT '{}',
        problem text NOT NULL DEFAULT '',
        follower text NOT NULL DEFAULT '',
        lease_expire_time timestamptz NOT NULL DEFAULT '-infinity',
        create_time timestamptz NOT NULL DEFAULT clock_timestamp()
    )
    """,
    "CREATE INDEX followed_servers_by_owner ON followed_servers (owner, id)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    op.execute("DROP TABLE followed_servers")
