"""Counts the bytes of a tenant's corpora."""

from podium_kit.postgres.migrations import run_schema

revision = "0107"
down_revision = "0106"


def upgrade() -> None:
    run_schema(__file__, "corpora_bytes.sql")
