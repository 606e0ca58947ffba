"""Holds that cover several models: whichever of them answers."""

from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.execute("ALTER TABLE hold ADD COLUMN fallbacks json NOT NULL DEFAULT '[]'")
