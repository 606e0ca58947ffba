"""Answers of effectful calls, so that a key is never acted on twice."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE effects (
            tenant text NOT NULL,
            key text NOT NULL,
            digest text NOT NULL,
            answer bytea,
            create_time timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (tenant, key)
        )
        """
    )
    op.execute("CREATE INDEX effects_by_age ON effects (create_time)")


def downgrade() -> None:
    op.execute("DROP TABLE effects")
