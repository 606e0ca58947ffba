"""Teams, roles and key of whoever started an episode."""

from podium_kit.postgres.migrations import run_schema

revision = "0105"
down_revision = "0104"


def upgrade() -> None:
    run_schema(__file__, "episode_groups.sql")
