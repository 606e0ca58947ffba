"""The database engine of the episodes service."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine


def open_engine(database_url: str, pool_size: int = 16) -> AsyncEngine:
    """An engine whose statements commit one by one unless a transaction is begun."""
    return create_async_engine(
        database_url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=30,
        isolation_level="AUTOCOMMIT",
        pool_use_lifo=True,
    )


async def check(engine: AsyncEngine) -> None:
    """Raises when the database does not answer."""
    async with engine.connect() as connection:
        await connection.execute(text("SELECT 1"))
