"""Money is held before vectors are bought."""

from podium_kit.postgres.migrations import run_schema

revision = "0106"
down_revision = "0105"


def upgrade() -> None:
    run_schema(__file__, "held_embedding_costs.sql")
