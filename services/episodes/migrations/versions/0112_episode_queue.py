"""Workers take episodes from a queue."""

from podium_kit.postgres.migrations import run_schema

revision = "0112"
down_revision = "0111"


def upgrade() -> None:
    run_schema(__file__, "episode_queue.sql")
