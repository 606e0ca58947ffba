"""Agents of API keys, and who created them."""

from podium_kit.postgres.migrations import run_schema

revision = "0103"
down_revision = "0102"


def upgrade() -> None:
    run_schema(__file__, "key_people.sql")
