import asyncio
from collections.abc import Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from cost_ledger.journal.store_rows import entry_from_json
from cost_ledger.models import Entry
from cost_ledger.spend.models import EntryFilter
from cost_ledger.store_engine import tenant_transaction

OPEN_HOLDS = text("""
    SELECT key, dispatched FROM hold
    WHERE tenant = :tenant AND episode_id = :episode_id AND state = 'open'
    ORDER BY create_time, key
""")

OVERDUE_HOLDS = text("SELECT tenant, key FROM overdue_holds(:limit)")

ENTRIES = """
    SELECT row_to_json(entry)::text AS entry FROM entry
    WHERE tenant = :tenant AND sequence > :after {of_episode} {unpriced}
      AND (:any_kind OR kind = ANY(CAST(:kinds AS text[])))
    ORDER BY sequence LIMIT :limit
"""
# Each names its partial index's condition, or it could not be used.
OF_EPISODE = "AND episode_id = :episode_id AND episode_id <> ''"
UNPRICED = """
    AND suspense > 0 AND NOT EXISTS (
        SELECT FROM entry later
        WHERE later.tenant = entry.tenant AND later.corrects_sequence = entry.sequence
          AND later.corrects_sequence > 0
    )
"""
INTERVAL_S = 3600.0
MONTHS_AHEAD = 12
KEYS_PER_ROUND = 10_000


class ReportStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def open_holds(self, tenant: str, episode_id: str) -> dict[str, bool]:
        """Keys of the episode's open holds, oldest first, and whether each was dispatched."""
        rows = await self._all(OPEN_HOLDS, tenant=tenant, episode_id=episode_id)
        return {row.key: row.dispatched for row in rows}

    async def overdue_holds(self, limit: int) -> list[tuple[str, str]]:
        """(tenant, key) of open holds whose time is over, longest overdue first."""
        async with tenant_transaction(self._engine) as connection:
            rows = await connection.execute(OVERDUE_HOLDS, {"limit": limit})
            return [(row.tenant, row.key) for row in rows]

    async def entries(self, tenant: str, wanted: EntryFilter) -> list[Entry]:
        episode = {"episode_id": wanted.episode_id} if wanted.episode_id else {}
        conditions = {
            "of_episode": OF_EPISODE if episode else "",
            "unpriced": UNPRICED if wanted.unpriced else "",
        }
        rows = await self._all(
            text(ENTRIES.format(**conditions)),
            tenant=tenant,
            **episode,
            after=wanted.after_sequence,
            any_kind=not wanted.kinds,
            kinds=[kind.value for kind in wanted.kinds],
            limit=wanted.limit,
        )
        return [entry_from_json(row.entry) for row in rows]

    async def _all(self, statement: Any, tenant: str, **values: object) -> Sequence[Any]:
        async with tenant_transaction(self._engine, tenant) as connection:
            return (await connection.execute(statement, {"tenant": tenant, **values})).all()


async def read_entries(
    connection: AsyncConnection, statement: Any, tenant: str, **values: object
) -> list[Entry]:
    rows = (await connection.execute(statement, {"tenant": tenant, **values})).scalars().all()
    # In a thread: many take seconds, in which others post.
    return await asyncio.to_thread(lambda: [entry_from_json(row) for row in rows])


MAKE_PARTITIONS = text("SELECT make_entry_partitions(:months_ahead)")
PRUNE_KEYS = text("SELECT prune_keys(:count_max)")


class UpkeepStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def make_partitions(self, months_ahead: int) -> None:
        async with tenant_transaction(self._engine) as connection:
            await connection.execute(MAKE_PARTITIONS, {"months_ahead": months_ahead})

    async def prune_keys(self, count_max: int) -> int:
        """Forgets keys whose retry a closed period rejects; how many there were."""
        async with tenant_transaction(self._engine) as connection:
            result = await connection.execute(PRUNE_KEYS, {"count_max": count_max})
            return int(result.scalar_one())


async def keep_up(store: UpkeepStore) -> bool:
    """Runs one round, and returns whether another is due at once. Several replicas may."""
    await store.make_partitions(MONTHS_AHEAD)
    return await store.prune_keys(KEYS_PER_ROUND) == KEYS_PER_ROUND
