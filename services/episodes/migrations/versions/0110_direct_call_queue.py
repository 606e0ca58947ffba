"""Workers take direct calls from a queue."""

from podium_kit.postgres.migrations import run_schema

revision = "0110"
down_revision = "0109"


def upgrade() -> None:
    run_schema(__file__, "direct_call_queue.sql")
