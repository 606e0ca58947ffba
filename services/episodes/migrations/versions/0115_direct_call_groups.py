"""Teams, agents, roles and key of the caller of a direct call."""

from podium_kit.postgres.migrations import run_schema

revision = "0115"
down_revision = "0114"


def upgrade() -> None:
    run_schema(__file__, "direct_call_groups.sql")
