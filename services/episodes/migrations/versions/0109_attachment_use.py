"""How many files and bytes each tenant keeps, for its quota."""

from podium_kit.postgres.migrations import run_schema

revision = "0109"
down_revision = "0108"


def upgrade() -> None:
    run_schema(__file__, "attachment_use.sql")
