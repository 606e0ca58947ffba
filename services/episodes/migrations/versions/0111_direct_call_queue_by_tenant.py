"""Workers take direct calls fairly by tenant."""

from podium_kit.postgres.migrations import run_schema

revision = "0111"
down_revision = "0110"


def upgrade() -> None:
    run_schema(__file__, "direct_call_queue_by_tenant.sql")
