"""Workers take episodes fairly by tenant."""

from podium_kit.postgres.migrations import run_schema

revision = "0113"
down_revision = "0112"


def upgrade() -> None:
    run_schema(__file__, "episode_queue_by_tenant.sql")
