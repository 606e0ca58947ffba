"""An episode is counted and stored in one statement."""

from podium_kit.postgres.migrations import run_schema

revision = "0114"
down_revision = "0113"


def upgrade() -> None:
    run_schema(__file__, "episode_room.sql")
