from podium_kit.postgres.migrations import run_schema

revision = "0200"
down_revision = None

# Access first: the others use its functions.
SCRIPTS = (
    "access.sql",
    "journal.sql",
    "prices.sql",
    "budgets.sql",
    "books.sql",
    "spend.sql",
    "audit.sql",
    "invoices.sql",
    "standing.sql",
)


def upgrade() -> None:
    run_schema(__file__, *SCRIPTS)
