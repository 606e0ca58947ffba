"""The database engine of the registry, and the version every write bumps."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine


def open_engine(database_url: str) -> AsyncEngine:
    """An engine with a small pool; the registry reads mostly from memory."""
    return create_async_engine(database_url, pool_size=10, max_overflow=0)


async def check(engine: AsyncEngine) -> None:
    """Raises when the database does not answer."""
    async with engine.connect() as connection:
        await connection.execute(text("SELECT 1"))


async def bump_catalogue(connection: AsyncConnection) -> None:
    """Makes every process read tools and policies again. Also serialises writers."""
    await connection.execute(text("UPDATE catalogue_version SET version = version + 1"))
