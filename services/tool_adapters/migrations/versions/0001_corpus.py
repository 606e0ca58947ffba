"""Corpora, their documents and the passages that are searched."""

from alembic import op

revision = "0001"
down_revision = None

STATEMENTS = (
    # The owner is a tenant; the empty owner is the platform, whose corpora all may search.
    """
    CREATE TABLE corpora (
        owner text NOT NULL,
        name text NOT NULL,
        version bigint NOT NULL DEFAULT 0,
        PRIMARY KEY (owner, name)
    )
    """,
    """
    CREATE TABLE documents (
        owner text NOT NULL,
        corpus text NOT NULL,
        id text NOT NULL,
        title text NOT NULL,
        uri text NOT NULL,
        digest text NOT NULL,
        PRIMARY KEY (owner, corpus, id),
        FOREIGN KEY (owner, corpus) REFERENCES corpora (owner, name) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE passages (
        owner text NOT NULL,
        corpus text NOT NULL,
        document_id text NOT NULL,
        ordinal integer NOT NULL,
        content text NOT NULL,
        PRIMARY KEY (owner, corpus, document_id, ordinal),
        FOREIGN KEY (owner, corpus, document_id)
            REFERENCES documents (owner, corpus, id) ON DELETE CASCADE
    )
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    for table in ("passages", "documents", "corpora"):
        op.execute(f"DROP TABLE {table}")
