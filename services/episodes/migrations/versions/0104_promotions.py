"""Promoted versions that webhooks were told of."""

from podium_kit.postgres.migrations import run_schema

revision = "0104"
down_revision = "0103"


def upgrade() -> None:
    run_schema(__file__, "promotions.sql")
