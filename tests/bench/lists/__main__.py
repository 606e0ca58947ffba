"""`make bench-lists`: lists, filters, orders and counts over a million episodes."""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from statistics import median, quantiles

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.figures import say
from episodes.episodes.search import EpisodeFilter, SearchOrder
from episodes.episodes.store_search import EpisodeSearch
from episodes.models import EpisodeState, StopReason
from episodes.server import MIGRATIONS
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.postgres.engine import open_engine
from podium_kit.postgres.migrations import upgrade

TARGET_MS = 300
TENANT = "acme"
# Over 90 days; one in 5,000 has the rare label and word, one in 50 the common label.
EPISODES = """
    INSERT INTO episodes (
        id, tenant, subject, spec, toolset_digest, policy_name, policy_version, labels, group_id,
        group_size, sample_index, task_id, turn_limit, time_limit_s, create_time, stop_reason,
        turn_count, tool_call_count, cost, currency, end_time
    ) SELECT md5('e' || n)::uuid, 'acme', 'user-' || n % 200, ''::bytea, ''::bytea,
        'policy-' || n % 20, 1,
        jsonb_build_object('batch', CASE WHEN n % 5000 = 0 THEN 'rare'
            WHEN n % 50 = 0 THEN 'common' ELSE 'other' END),
        'g' || n, 1, 0, '', 10, 60, now() - n * (interval '90 days' / :count),
        CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'answered' END, 3, 2,
        (n::bigint * 7919 % 100000) / 1e6, 'USD', now()
    FROM generate_series(1, :count) n
"""
FACTS = """
    INSERT INTO episode_facts (
        id, tenant, subject, teams, policy, model, labels, group_id, task_id, task, create_time,
        stop_reason, cost, currency, duration_ms, tools, failure_kinds
    ) SELECT id, tenant, subject, '{}', policy_name, '', labels, group_id, task_id,
        'Find the price of item ' || left(id::text, 8) || ' in the catalogue'
            || CASE WHEN labels ->> 'batch' = 'rare' THEN ' zebra' ELSE '' END,
        create_time, stop_reason, cost, currency, (cost * 1e6)::bigint % 60000,
        ARRAY['tool-' || ascii(substr(id::text, 1, 1)), 'search'], '{}'
    FROM episodes
"""


def cases() -> dict[str, tuple[EpisodeFilter, SearchOrder]]:
    any_, now = EpisodeFilter(), datetime.now(UTC)
    newest = SearchOrder.NEWEST
    return {
        "newest page": (any_, newest),
        "running": (replace(any_, states=(EpisodeState.RUNNING,)), newest),
        "a common label": (replace(any_, labels={"batch": "common"}), newest),
        "a rare label": (replace(any_, labels={"batch": "rare"}), newest),
        "a policy": (replace(any_, policies=("policy-7",)), newest),
        "a person": (replace(any_, subjects=("user-77",)), newest),
        "failed": (replace(any_, stop_reasons=(StopReason.FAILED,)), newest),
        "a tool": (replace(any_, tool_names=("tool-97",)), newest),
        "a common word": (replace(any_, words="price"), newest),
        "a rare word": (replace(any_, words="zebra"), newest),
        "most expensive": (any_, SearchOrder.COST),
        "longest": (any_, SearchOrder.DURATION),
        "most expensive of a policy": (replace(any_, policies=("policy-7",)), SearchOrder.COST),
        "above an amount": (replace(any_, min_cost=Decimal("0.0999")), newest),
        "a day, a month ago": (
            replace(any_, start_time=now - timedelta(31), end_time=now - timedelta(30)),
            newest,
        ),
    }


async def fill(engine: AsyncEngine, count: int) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("INSERT INTO segments (digest, body) VALUES ('', '')"))
        await connection.execute(text(EPISODES), {"count": count})
        await connection.execute(text(FACTS))
    async with engine.connect() as connection:
        outside = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await outside.execute(text("VACUUM ANALYZE episodes"))
        await outside.execute(text("VACUUM ANALYZE episode_facts"))


async def timed(call: Callable[[], Awaitable[object]], times: int) -> tuple[float, float]:
    """The median and the 95th percentile, in milliseconds."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        await call()
        taken.append(1000 * (time.perf_counter() - began))
    return median(taken), quantiles(taken, n=20)[-1]


async def main(count: int, times: int) -> None:
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as folder:
        server = EmbeddedPostgres(Path(folder) / "data")
        await server.start()
        try:
            url = await server.create_database("episodes")
            await upgrade(url, MIGRATIONS)
            engine = open_engine(url)
            began = time.perf_counter()
            await fill(engine, count)
            say(f"{count:,} episodes stored in {time.perf_counter() - began:.0f} s")
            await report(EpisodeSearch(engine), times)
            await engine.dispose()
        finally:
            await server.stop()


async def report(search: EpisodeSearch, times: int) -> None:
    say(f"{'list of 100':<28} {'p50 ms':>8} {'p95 ms':>8}   target {TARGET_MS}")
    for name, (wanted, order) in cases().items():
        middle, slow = await timed(partial(search.find, TENANT, wanted, order, None, 100), times)
        say(f"{name:<28} {middle:>8.1f} {slow:>8.1f}")
    week = EpisodeFilter(start_time=datetime.now(UTC) - timedelta(days=7))
    for name, wanted, bucket in (
        ("counts of a week by 3 h", week, timedelta(hours=3)),
        ("counts of all by day", EpisodeFilter(), timedelta(days=1)),
    ):
        middle, slow = await timed(partial(search.count, TENANT, wanted, bucket), times)
        say(f"{name:<28} {middle:>8.1f} {slow:>8.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=20)
    given = parser.parse_args()
    asyncio.run(main(given.episodes, given.times))
