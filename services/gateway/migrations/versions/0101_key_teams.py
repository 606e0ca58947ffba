"""Teams of API keys, and their origin."""

from podium_kit.postgres.migrations import run_schema

revision = "0101"
down_revision = "0100"


def upgrade() -> None:
    run_schema(__file__, "key_teams.sql")
