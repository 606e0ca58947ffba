"""The database engines, and what a database that does not answer means."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from cost_ledger.errors import JournalRejected, LedgerUnavailable

# Connection failures, shutdown, and a server that starts up (PostgreSQL's appendix A).
UNAVAILABLE_STATES = ("08", "57P", "53300")
# The journal looks few keys up in tables that grow from empty: a scan that was the best
# plan in the first second must not be kept for the millionth row.
KEYED_LOOKUPS = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}


def open_journal_engine(database_url: str) -> AsyncEngine:
    """For the one group in flight, and for the sweep beside it."""
    return create_async_engine(
        database_url,
        pool_size=2,
        max_overflow=0,
        connect_args={"server_settings": KEYED_LOOKUPS},
    )


def open_engine(database_url: str, pool_size: int = 8) -> AsyncEngine:
    """For prices, budgets and reports."""
    return create_async_engine(
        database_url, pool_size=pool_size, max_overflow=0, pool_use_lifo=True
    )


async def check(engine: AsyncEngine) -> None:
    """Raises when the database does not answer."""
    async with engine.connect() as connection:
        await connection.execute(text("SELECT 1"))


@contextmanager
def database_errors() -> Iterator[None]:
    """Tells a database that is away from one that refuses the rows."""
    try:
        yield
    except (OSError, PoolTimeout) as error:
        raise LedgerUnavailable from error
    except DBAPIError as error:
        if error.connection_invalidated or _is_away(error):
            raise LedgerUnavailable from error
        raise JournalRejected from error


def _is_away(error: DBAPIError) -> bool:
    state = str(getattr(error.orig, "sqlstate", "") or "")
    return state.startswith(UNAVAILABLE_STATES)
