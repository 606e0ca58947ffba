"""What operators are alerted by."""

from podium_kit.postgres.migrations import run_schema

revision = "0102"
down_revision = "0101"


def upgrade() -> None:
    run_schema(__file__, "standing.sql")
