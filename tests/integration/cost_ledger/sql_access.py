from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from cost_ledger.store_engine import tenant_transaction
from integration.cost_ledger.running_ledger import RunningLedger, as_service


@asynccontextmanager
async def as_owner(ledger: RunningLedger) -> AsyncIterator[AsyncConnection]:
    engine = create_async_engine(ledger.database_url)
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def as_tenants(ledger: RunningLedger, *tenants: str) -> AsyncIterator[AsyncConnection]:
    """A transaction of the service within the scope of the tenants."""
    engine = create_async_engine(as_service(ledger.database_url))
    try:
        async with tenant_transaction(engine, *tenants) as connection:
            yield connection
    finally:
        await engine.dispose()


async def set_clock(ledger: RunningLedger, offset: str) -> None:
    """Moves the ledger's clock by an SQL interval."""
    async with as_owner(ledger) as connection:
        await connection.execute(
            text(f"""
            CREATE OR REPLACE FUNCTION ledger_clock() RETURNS timestamptz VOLATILE LANGUAGE sql
            RETURN clock_timestamp() + interval '{offset}'
            """)
        )


async def rows_of(connection: AsyncConnection, query: str, **values: object) -> list[Any]:
    return [tuple(row) for row in await connection.execute(text(query), values)]
