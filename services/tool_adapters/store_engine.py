"""The database engine of the adapters."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from tool_adapters.errors import DatabaseUnavailable

# Connection failures, shutdown, and a server that starts up (PostgreSQL's appendix A).
AWAY_STATES = ("08", "57P", "53300")


def open_engine(database_url: str) -> AsyncEngine:
    """An engine with a pool for the claims of effectful calls and for searches."""
    return create_async_engine(database_url, pool_size=10, max_overflow=10)


async def check(engine: AsyncEngine) -> None:
    """Raises when the database does not answer."""
    async with engine.connect() as connection:
        await connection.execute(text("SELECT 1"))


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
