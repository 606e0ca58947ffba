"""Where a passage stands in its document, and its vector for search by meaning."""

from alembic import op

revision = "0003"
down_revision = "0002"

COLUMNS = {
    "documents": {
        "media_type": "text NOT NULL DEFAULT 'text/plain'",
        # The model of the passages' vectors; empty means that there are none.
        "embedding_model": "text NOT NULL DEFAULT ''",
    },
    "passages": {
        "section": "text NOT NULL DEFAULT ''",
        "page": "integer NOT NULL DEFAULT 0",
        "first": "integer NOT NULL DEFAULT 0",
        "after": "integer NOT NULL DEFAULT 0",
        # Little-endian float32 of length 1; read as a whole, so no extension is needed.
        "vector": "bytea NOT NULL DEFAULT ''",
    },
}


# A corpus that is deleted and made again must not meet an index of its former life.
BEGIN_AFTER_ALL_EARLIER = """
    ALTER TABLE corpora ALTER COLUMN version
    SET DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
"""


def upgrade() -> None:
    op.execute(BEGIN_AFTER_ALL_EARLIER)
    for table, columns in COLUMNS.items():
        for name, kind in columns.items():
            op.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def downgrade() -> None:
    op.execute("ALTER TABLE corpora ALTER COLUMN version SET DEFAULT 0")
    for table, columns in COLUMNS.items():
        for name in columns:
            op.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
