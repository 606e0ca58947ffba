"""Every episode of a platform against its ledger: what each reports must be what was posted."""

from pathlib import Path

import asyncpg

from podium_kit.embedded.postgres import EmbeddedPostgres

ENDED = """
    SELECT id::text, cost FROM episodes
    WHERE stop_reason IS NOT NULL AND unpriced_call_count = 0
"""
# Later adjustments and reversals are not part of what the call was captured at.
POSTED = """
    SELECT episode_id, sum(spend + provisional) AS cost FROM entry
    WHERE episode_id <> '' AND kind IN ('capture', 'record') GROUP BY episode_id
"""


async def misreported(state_dir: Path) -> list[str]:
    """Ended episodes whose cost is not the sum of their own calls' entries, in words.

    Compared to the last digit. Episodes with calls of unknown price have no sum; what the
    episodes they called cost is reported apart from it.
    """
    # First, since an episode that a test did not wait for may end between the two.
    ended = await _rows(state_dir, "episodes", ENDED)
    posted = {
        row["episode_id"]: row["cost"] for row in await _rows(state_dir, "cost_ledger", POSTED)
    }
    return [
        f"episode {row['id']} reports {row['cost']}, the ledger {posted.get(row['id'], 0)}"
        for row in ended
        if (row["cost"] or 0) != posted.get(row["id"], 0)
    ]


async def _rows(state_dir: Path, database: str, query: str) -> list[asyncpg.Record]:
    dsn = EmbeddedPostgres(state_dir / "postgres").dsn(database)
    connection = await asyncpg.connect(dsn.replace("+asyncpg", ""))
    try:
        rows: list[asyncpg.Record] = await connection.fetch(query)
        return rows
    finally:
        await connection.close()
