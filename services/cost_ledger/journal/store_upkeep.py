"""What the schema's owner lets the service do to the journal's tables, and nothing more."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from cost_ledger.store_engine import tenant_transaction

MAKE_PARTITIONS = text("SELECT make_entry_partitions(:months_ahead)")
PRUNE_KEYS = text("SELECT prune_keys(:count_max)")


class UpkeepStore:
    """Functions of the owner that keep the tables in shape."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def make_partitions(self, months_ahead: int) -> None:
        """Makes the journal's partitions of this month and the next ones, if they are missing."""
        async with tenant_transaction(self._engine) as connection:
            await connection.execute(MAKE_PARTITIONS, {"months_ahead": months_ahead})

    async def prune_keys(self, count_max: int) -> int:
        """Forgets keys whose retry a closed period rejects; how many there were."""
        async with tenant_transaction(self._engine) as connection:
            result = await connection.execute(PRUNE_KEYS, {"count_max": count_max})
            return int(result.scalar_one())
