"""Groups that read without a lock."""

from podium_kit.postgres.migrations import run_schema

revision = "0104"
down_revision = "0103"


def upgrade() -> None:
    run_schema(__file__, "books_at_once.sql")
