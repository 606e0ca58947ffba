"""How many files of requests a tenant may keep."""

from podium_kit.postgres.migrations import run_schema

revision = "0102"
down_revision = "0101"


def upgrade() -> None:
    run_schema(__file__, "file_quotas.sql")
