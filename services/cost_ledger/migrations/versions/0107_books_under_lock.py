"""Groups that read under the locks, in one round trip."""

from podium_kit.postgres.migrations import run_schema

revision = "0107"
down_revision = "0106"


def upgrade() -> None:
    run_schema(__file__, "books_under_lock.sql")
