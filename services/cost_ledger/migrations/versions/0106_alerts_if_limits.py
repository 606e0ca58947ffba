"""Alerts are looked for where there are soft limits."""

from podium_kit.postgres.migrations import run_schema

revision = "0106"
down_revision = "0105"


def upgrade() -> None:
    run_schema(__file__, "alerts_if_limits.sql")
