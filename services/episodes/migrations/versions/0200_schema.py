from podium_kit.postgres.migrations import run_schema

revision = "0200"
down_revision = None

# In the order of their references.
SCRIPTS = (
    "episodes.sql",
    "episode_facts.sql",
    "episode_queue.sql",
    "steps.sql",
    "approvals.sql",
    "client_results.sql",
    "outbox.sql",
    "direct_calls.sql",
    "attachments.sql",
    "feedback.sql",
    "webhooks.sql",
    "tenant_events.sql",
    "promotions.sql",
    "evaluations.sql",
)


def upgrade() -> None:
    run_schema(__file__, *SCRIPTS)
