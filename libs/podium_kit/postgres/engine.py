import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg
from sqlalchemy import event, text
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_dbapi
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from podium_kit.postgres.urls import driver_url
from podium_kit.rpc.errors import Unavailable

SILENT_S = 10
ASK_EVERY_S = 5
GONE_AFTER_S = 30
OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENT_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, ASK_EVERY_S),
    # Of what is written and of what keeps a connection alive: how long neither is acknowledged.
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GONE_AFTER_S * 1000),
)


class WatchedConnection(asyncpg.Connection):
    """A connection that notices within seconds when the machine of its server is gone.

    A server that fails over to another machine ends no connection of the first one. Left to itself
    the kernel sends what was written for a quarter of an hour before it reports that, and waits two
    hours before it asks a peer that is silent. A server that is slow answers for its connections
    all the while: its kernel does. asyncpg takes no options of a socket, but a class of its
    connections.
    """

    __slots__ = ()

    def __init__(self, protocol: Any, transport: asyncio.Transport, *parts: Any) -> None:
        super().__init__(protocol, transport, *parts)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family != socket.AF_UNIX:
            for level, name, value in OPTIONS:
                connected.setsockopt(level, name, value)


# PostgreSQL's appendix A. Connection failures, too few resources, shutdown, a server that starts
# up, and timeouts of statements, idle transactions and locks.
AWAY_STATES = ("08", "53", "57", "25P03", "55P03")
# Serialization failure and deadlock: the same transaction may work now.
CONFLICT_STATES = ("40001", "40P01")
# A migration changed a table under a statement that was prepared before it, and that now is not
# run; the next time it is prepared anew.
STALE_PLANS = (
    asyncpg.InvalidCachedStatementError,
    AsyncAdapt_asyncpg_dbapi.InvalidCachedStatementError,
)


class DatabaseUnavailable(Unavailable):
    """The database does not answer. Whether a write was kept shows when it is retried."""

    def __init__(self) -> None:
        super().__init__("the service's database does not answer; send the same request again")


class TransactionConflict(Unavailable):
    """Lost against a concurrent transaction; nothing was written."""

    def __init__(self) -> None:
        super().__init__("a concurrent change was faster; send the same request again")


def open_engine(
    database_url: str,
    pool_size: int = 10,
    *,
    answer_timeout_s: float | None = None,
) -> AsyncEngine:
    """An engine with at most `pool_size` connections.

    Waits `answer_timeout_s` for a connection, for one of the pool and for each statement; unset,
    as long as its caller does.
    """
    waits: dict[str, Any] = {}
    arguments: dict[str, Any] = {"connection_class": WatchedConnection}
    if answer_timeout_s is not None:
        waits["pool_timeout"] = answer_timeout_s
        arguments |= {"timeout": answer_timeout_s, "command_timeout": answer_timeout_s}
    engine = create_async_engine(
        driver_url(database_url),
        **waits,
        connect_args=arguments,
        pool_size=pool_size,
        max_overflow=0,
        pool_use_lifo=True,
    )
    event.listen(engine.sync_engine, "checkout", _require_open)
    return engine


def _require_open(connection: Any, _record: object, _checked_out: object) -> None:
    """Spares requests the dead connections that a restarted database leaves behind.

    The driver has noticed their end, so that nothing is asked as with SQLAlchemy's `pre_ping`,
    which takes three round trips.
    """
    if connection.driver_connection.is_closed():
        raise InvalidatePoolError


async def check(engine: AsyncEngine) -> None:
    async with autocommit(engine) as connection:
        await connection.execute(text("SELECT 1"))


@asynccontextmanager
async def transaction(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection whose changes are stored together.

    Raises DatabaseUnavailable and TransactionConflict.
    """
    with database_errors():
        async with engine.begin() as connection:
            yield connection


@asynccontextmanager
async def autocommit(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection whose statements commit one by one, without the round trips of a transaction.

    Raises DatabaseUnavailable and TransactionConflict.
    """
    with database_errors():
        async with engine.connect() as connection:
            yield await connection.execution_options(isolation_level="AUTOCOMMIT")


@contextmanager
def database_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, PoolTimeout, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        # The last is a connection that its server ended between two statements.
        raise DatabaseUnavailable from error
    except (asyncpg.PostgresError, DBAPIError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        state = str(getattr(cause, "sqlstate", "") or "")
        if state.startswith(AWAY_STATES) or getattr(error, "connection_invalidated", False):
            raise DatabaseUnavailable from error
        if state in CONFLICT_STATES or isinstance(cause, STALE_PLANS):
            raise TransactionConflict from error
        raise
