"""Episodes, their step log and the outbox."""

from podium_kit.postgres.migrations import run_schema

revision = "0100"
down_revision = None


def upgrade() -> None:
    run_schema(__file__, "episodes.sql", "steps.sql", "client_results.sql", "outbox.sql")
