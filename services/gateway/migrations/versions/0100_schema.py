"""API keys, limits of tenants and the audit log."""

from podium_kit.postgres.migrations import run_schema

revision = "0100"
down_revision = None


def upgrade() -> None:
    run_schema(__file__, "keys.sql", "limits.sql", "audit.sql")
