"""How many episodes a tenant may run at once."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    # Tenants that have limits of their own keep running as many as the platform's default allows.
    op.execute(
        "ALTER TABLE tenant_limits ADD COLUMN running_episodes integer NOT NULL DEFAULT 10000"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE tenant_limits DROP COLUMN running_episodes")
