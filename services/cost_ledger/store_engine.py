"""The database engines, and what a database that does not answer means."""

import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager

import asyncpg
from sqlalchemy import bindparam, make_url, text
from sqlalchemy.dialects.postgresql import ARRAY, TEXT
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from cost_ledger.errors import JournalRejected, LedgerUnavailable

log = logging.getLogger(__name__)

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


async def open_journal_pool(database_url: str) -> asyncpg.Pool:
    """A connection of the bare driver, made again when it breaks: groups take turns."""
    url = make_url(database_url).set(drivername="postgresql")
    return await asyncpg.create_pool(
        url.render_as_string(hide_password=False),
        min_size=0,
        max_size=1,
        server_settings=KEYED_LOOKUPS,
        # Nothing outlives a transaction here, so there is nothing to reset.
        reset=_keep_as_it_is,
    )


async def _keep_as_it_is(_: object) -> None:
    pass


def open_engine(database_url: str, pool_size: int = 8) -> AsyncEngine:
    """For prices, budgets and reports."""
    return create_async_engine(
        database_url, pool_size=pool_size, max_overflow=0, pool_use_lifo=True
    )


async def check(engine: AsyncEngine) -> None:
    """Raises when the database does not answer."""
    async with engine.connect() as connection:
        await connection.execute(text("SELECT 1"))


SET_SCOPE = text("SELECT set_config('ledger.tenants', CAST(:tenants AS text), true)").bindparams(
    bindparam("tenants", type_=ARRAY(TEXT))
)


@asynccontextmanager
async def tenant_transaction(engine: AsyncEngine, *tenants: str) -> AsyncIterator[AsyncConnection]:
    """A transaction that sees and writes the rows of these tenants and of no others.

    Row-level security asks for the scope; '' is the scope of list prices.
    """
    with database_errors():
        async with engine.begin() as connection:
            await set_scope(connection, tenants)
            yield connection


async def set_scope(connection: AsyncConnection, tenants: Iterable[str]) -> None:
    """Lets the rest of the transaction see the rows of these tenants."""
    await connection.execute(SET_SCOPE, {"tenants": sorted(set(tenants))})


@contextmanager
def database_errors() -> Iterator[None]:
    """Tells a database that is away from one that rejects the rows."""
    try:
        yield
    except (OSError, PoolTimeout, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        # The last is a connection that its server ended between two statements: what was asked
        # then is found by its key when it is asked again.
        raise LedgerUnavailable from error
    except asyncpg.PostgresError as error:
        raise _fault_of(error) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise LedgerUnavailable from error
        raise _fault_of(error.orig) from error


def _fault_of(error: BaseException | None) -> LedgerUnavailable | JournalRejected:
    if _is_away(error):
        return LedgerUnavailable()
    log.error("the database rejected rows: %s", error)
    return JournalRejected()


def _is_away(error: object) -> bool:
    return str(getattr(error, "sqlstate", "") or "").startswith(UNAVAILABLE_STATES)
