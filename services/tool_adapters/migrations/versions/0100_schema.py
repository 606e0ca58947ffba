"""Corpora, effects and followed MCP servers."""

from podium_kit.postgres.migrations import run_schema

revision = "0100"
down_revision = None


def upgrade() -> None:
    run_schema(__file__, "corpora.sql", "effects.sql", "following.sql")
