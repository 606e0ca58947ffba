"""Tools that the adapters keep up to date."""

from alembic import op

revision = "0004"
down_revision = "0003"

STATEMENTS = (
    """
    CREATE TABLE followed_tools (
        server_id uuid PRIMARY KEY,
        owner text NOT NULL,
        name_prefix text NOT NULL,
        common bytea NOT NULL,
        allowed_by text NOT NULL,
        update_time timestamptz NOT NULL DEFAULT clock_timestamp()
    )
    """,
    "CREATE INDEX followed_tools_by_owner ON followed_tools (owner)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    op.execute("DROP TABLE followed_tools")
