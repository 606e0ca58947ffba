"""The ledger's own use of its database: a pool of the bare driver, row-level security, and rows as
JSON."""

import json
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from decimal import Decimal
from typing import Any

import asyncpg
from sqlalchemy import bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY, TEXT
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from cost_ledger.errors import JournalRejected
from podium_kit.postgres.engine import WatchedConnection, database_errors
from podium_kit.postgres.urls import connect_arguments, driver_url

log = logging.getLogger(__name__)

# The journal looks few keys up in tables that grow from empty: a scan that was the best
# plan in the first second must not be kept for the millionth row.
KEYED_LOOKUPS = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_material": "off",
    "enable_memoize": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}


async def open_journal_pool(database_url: str) -> asyncpg.Pool:
    """A connection of the bare driver, made again when it breaks: groups take turns."""
    return await asyncpg.create_pool(
        **connect_arguments(driver_url(database_url)),
        connection_class=WatchedConnection,
        min_size=0,
        max_size=1,
        server_settings=KEYED_LOOKUPS,
        # Nothing outlives a transaction here, so there is nothing to reset.
        reset=_keep_as_it_is,
    )


async def _keep_as_it_is(_: object) -> None:
    pass


SET_SCOPE = text("SELECT set_scope(:tenants, true)").bindparams(
    bindparam("tenants", type_=ARRAY(TEXT))
)


@asynccontextmanager
async def tenant_transaction(engine: AsyncEngine, *tenants: str) -> AsyncIterator[AsyncConnection]:
    """A transaction that sees and writes the rows of these tenants and of no others.

    Row-level security asks for the scope; '' is the scope of list prices.
    """
    with journal_errors():
        async with engine.begin() as connection:
            await set_scope(connection, tenants)
            yield connection


async def set_scope(connection: AsyncConnection, tenants: Iterable[str]) -> None:
    await connection.execute(SET_SCOPE, {"tenants": sorted(set(tenants))})


@contextmanager
def journal_errors() -> Iterator[None]:
    """Raises DatabaseUnavailable and TransactionConflict, and JournalRejected for other errors."""
    try:
        with database_errors():
            yield
    except (asyncpg.PostgresError, DBAPIError) as error:
        log.error("the database rejected rows: %s", error)
        raise JournalRejected from error


def to_json(rows: Iterable[dict[str, Any]]) -> str:
    return json.dumps(list(rows), default=str)


def parsed(text: str | None) -> Any:
    """JSON whose numbers with decimals are exact; None stays None."""
    return json.loads(text, parse_float=Decimal) if text else None
