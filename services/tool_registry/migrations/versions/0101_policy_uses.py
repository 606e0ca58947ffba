"""Whether a policy was used."""

from podium_kit.postgres.migrations import run_schema

revision = "0101"
down_revision = "0100"


def upgrade() -> None:
    run_schema(__file__, "policy_uses.sql")
