"""The database engine of the adapters."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine


def open_engine(database_url: str) -> AsyncEngine:
    """An engine with a pool for the claims of effectful calls and for searches."""
    return create_async_engine(database_url, pool_size=10, max_overflow=10)


async def check(engine: AsyncEngine) -> None:
    """Raises when the database does not answer."""
    async with engine.connect() as connection:
        await connection.execute(text("SELECT 1"))
