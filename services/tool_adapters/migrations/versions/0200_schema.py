from podium_kit.postgres.migrations import run_schema

revision = "0200"
down_revision = None

# In the order of their references.
SCRIPTS = (
    "corpora.sql",
    "adapter_costs.sql",
    "effects.sql",
    "following.sql",
    "learnt_parameters.sql",
    "response_cache.sql",
    "secrets.sql",
    "workspaces.sql",
)


def upgrade() -> None:
    run_schema(__file__, *SCRIPTS)
