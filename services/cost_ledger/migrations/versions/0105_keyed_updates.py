"""Updates that find their rows by key."""

from podium_kit.postgres.migrations import run_schema

revision = "0105"
down_revision = "0104"


def upgrade() -> None:
    run_schema(__file__, "keyed_updates.sql")
