"""Counting a tenant's running episodes at every start."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.execute(
        "CREATE INDEX episodes_running_by_tenant ON episodes (tenant) WHERE stop_reason IS NULL"
    )


def downgrade() -> None:
    op.execute("DROP INDEX episodes_running_by_tenant")
