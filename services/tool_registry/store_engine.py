"""The database engine of the registry, and the versions every write bumps."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from tool_registry.errors import DatabaseUnavailable

# Connection failures, shutdown, and a server that starts up (PostgreSQL's appendix A).
AWAY_STATES = ("08", "57P", "53300")
BUMP = text("UPDATE catalogue_version SET version = version + 1 RETURNING version")
BUMP_FACTS = text("UPDATE catalogue_version SET facts_version = facts_version + 1")


def open_engine(database_url: str) -> AsyncEngine:
    """An engine with a small pool; the registry reads mostly from memory."""
    return create_async_engine(database_url, pool_size=10, max_overflow=0)


async def check(engine: AsyncEngine) -> None:
    """Raises when the database does not answer."""
    async with engine.connect() as connection:
        await connection.execute(text("SELECT 1"))


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection for one query, without the round trips of a transaction.

    Raises DatabaseUnavailable.
    """
    async with transaction(engine.execution_options(isolation_level="AUTOCOMMIT")) as connection:
        yield connection


@asynccontextmanager
async def transaction(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection whose changes are stored together. Raises DatabaseUnavailable."""
    try:
        async with engine.begin() as connection:
            yield connection
    except (OSError, PoolTimeout) as error:
        raise DatabaseUnavailable from error
    except DBAPIError as error:
        state = str(getattr(error.orig, "sqlstate", "") or "")
        if error.connection_invalidated or state.startswith(AWAY_STATES):
            raise DatabaseUnavailable from error
        raise


async def bump_catalogue(connection: AsyncConnection) -> int:
    """The number of this change; every process reads on from the last it has seen.

    The row stays locked until the transaction ends: writers take turns, and changes
    become visible in the order of their numbers.
    """
    return int((await connection.execute(BUMP)).scalar_one())


async def bump_facts(connection: AsyncConnection) -> None:
    """Makes every process read the measurements again."""
    await connection.execute(BUMP_FACTS)
