"""Vectors that were bought for documents that are not stored yet."""

from podium_kit.postgres.migrations import run_schema

revision = "0105"
down_revision = "0104"


def upgrade() -> None:
    run_schema(__file__, "bought_vectors.sql")
