"""Every episode of a platform against its ledger: what each reports must be what was posted."""

from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import asyncpg

from embedded import EmbeddedPostgres
from podium.episodes.v1 import episode_pb2

ENDED = """
    SELECT id::text, spec, cost FROM episodes
    WHERE stop_reason IS NOT NULL AND unpriced_call_count = 0
"""
# What was adjusted or taken back later is not what the call was captured at.
POSTED = """
    SELECT episode_id, sum(spend + provisional) AS cost FROM entry
    WHERE episode_id <> '' AND kind IN ('capture', 'record') GROUP BY episode_id
"""


async def misreported(state_dir: Path) -> list[str]:
    """Ended episodes whose cost is not that of their calls and their children's, in words.

    Compared to the last digit; episodes with calls of unknown price have no sum.
    """
    episodes = await _rows(state_dir, "episodes", ENDED)
    posted = {
        row["episode_id"]: row["cost"] for row in await _rows(state_dir, "cost_ledger", POSTED)
    }
    children: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in episodes:
        parent = episode_pb2.EpisodeSpec.FromString(row["spec"]).parent.episode_id
        children[parent] += row["cost"] or 0
    return [
        f"episode {row['id']} reports {row['cost']}, the ledger {due}"
        for row in episodes
        if (row["cost"] or 0) != (due := posted.get(row["id"], 0) + children[row["id"]])
    ]


async def _rows(state_dir: Path, database: str, query: str) -> list[asyncpg.Record]:
    dsn = EmbeddedPostgres(state_dir / "postgres").dsn(database)
    connection = await asyncpg.connect(dsn.replace("+asyncpg", ""))
    try:
        rows: list[asyncpg.Record] = await connection.fetch(query)
        return rows
    finally:
        await connection.close()
