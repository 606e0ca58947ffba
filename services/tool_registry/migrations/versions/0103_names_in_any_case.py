"""Names of tools found whatever their capitals."""

from podium_kit.postgres.migrations import run_schema

revision = "0103"
down_revision = "0102"


def upgrade() -> None:
    run_schema(__file__, "names_in_any_case.sql")
