"""The gateway's database engine."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine


def open_engine(database_url: str, pool_size: int = 8) -> AsyncEngine:
    """An engine whose statements commit one by one."""
    return create_async_engine(
        database_url,
        pool_size=pool_size,
        max_overflow=0,
        isolation_level="AUTOCOMMIT",
        # A restarted database leaves dead connections behind.
        pool_pre_ping=True,
    )


async def check(engine: AsyncEngine) -> None:
    """Raises when the database does not answer."""
    async with engine.connect() as connection:
        await connection.execute(text("SELECT 1"))
