"""How many tokens a PDF file has at most, for holds."""

from podium_kit.postgres.migrations import run_schema

revision = "0116"
down_revision = "0115"


def upgrade() -> None:
    run_schema(__file__, "attachment_tokens.sql")
