"""Alembic migrations of a service, run before it serves."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, MetaData, text
from sqlalchemy.ext.asyncio import create_async_engine

# Any constant will do: it keeps two starting replicas from migrating at once.
MIGRATION_LOCK = 7_263_001


async def upgrade(database_url: str, script_location: Path) -> None:
    """Brings the database to the newest revision. `script_location` holds env.py."""
    engine = create_async_engine(database_url)
    try:
        async with engine.begin() as connection:
            await connection.execute(
                text("SELECT pg_advisory_xact_lock(:k)"), {"k": MIGRATION_LOCK}
            )
            await connection.run_sync(_upgrade, script_location)
    finally:
        await engine.dispose()


def _upgrade(connection: Connection, script_location: Path) -> None:
    config = Config()
    config.set_main_option("script_location", str(script_location))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def run_migrations_in_env(target_metadata: MetaData | None = None) -> None:
    """The whole of a service's `migrations/env.py`: runs on the given connection."""
    from alembic import context  # noqa: PLC0415  only importable inside Alembic's env.py

    connection = context.config.attributes["connection"]
    context.configure(connection=connection, target_metadata=target_metadata)
    with context.begin_transaction():
        context.run_migrations()
