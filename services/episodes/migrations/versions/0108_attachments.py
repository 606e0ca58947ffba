"""Files that come with episodes and direct calls."""

from podium_kit.postgres.migrations import run_schema

revision = "0108"
down_revision = "0107"


def upgrade() -> None:
    run_schema(__file__, "attachments.sql")
