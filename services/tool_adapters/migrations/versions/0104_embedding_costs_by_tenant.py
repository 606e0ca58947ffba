"""Owed costs of vectors are sent fairly by tenant; what the ledger rejects waits."""

from podium_kit.postgres.migrations import run_schema

revision = "0104"
down_revision = "0103"


def upgrade() -> None:
    run_schema(__file__, "embedding_costs_by_tenant.sql")
