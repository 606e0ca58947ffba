"""Holds that cover several models: whichever of them answers."""

from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    op.execute("ALTER TABLE hold ADD COLUMN fallbacks json NOT NULL DEFAULT '[]'")
