from podium_kit.postgres.migrations import run_schema

revision = "0200"
down_revision = None

# In the order of their references.
SCRIPTS = (
    "keys.sql",
    "sessions.sql",
    "limits.sql",
    "audit.sql",
    "views.sql",
)


def upgrade() -> None:
    run_schema(__file__, *SCRIPTS)
