"""`make bench-ledger`: the ledger in SQL and over gRPC, against the least SQL there is."""

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import Figures, say
from bench.ledger import product_sql
from bench.ledger.chain import chain_share
from bench.ledger.filled_journal import fill
from bench.ledger.floor import BATCH, Floor, measure_floor
from bench.ledger.guaranteed_floor import GuaranteedFloor, measure_guaranteed_floor
from bench.ledger.reports import BY_DAY_AND_MODEL, BY_MODEL, Reader
from bench.ledger.service import TENANTS, running_service
from cost_ledger.server import MIGRATIONS
from cost_ledger.spend.store import RollupStore
from integration.cost_ledger.running_ledger import as_service
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.postgres.engine import open_engine
from podium_kit.postgres.migrations import upgrade


@dataclass
class Databases:
    server: EmbeddedPostgres
    floor_url: str
    owner_url: str

    @property
    def service_url(self) -> str:
        return as_service(self.owner_url)


@asynccontextmanager
async def databases() -> AsyncIterator[Databases]:
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as folder:
        server = EmbeddedPostgres(Path(folder) / "data")
        await server.start()
        try:
            floor_url = await server.create_database("floor")
            owner_url = await server.create_database("ledger")
            await upgrade(owner_url, MIGRATIONS)
            yield Databases(server, floor_url, owner_url)
        finally:
            await server.stop()


@dataclass
class Run:
    """A measurement and its size; the floor once, and only if it is asked for."""

    figures: Figures
    databases: Databases
    entries: int
    _floor: Floor | None = field(default=None, init=False)
    _guaranteed: GuaranteedFloor | None = field(default=None, init=False)

    async def floor(self) -> Floor:
        if self._floor is None:
            say("floor")
            self._floor = await measure_floor(self.databases.floor_url)
            self.figures.note("floor.single_posts_per_s", round(self._floor.single))
            self.figures.note("floor.batched_rows_per_s", round(self._floor.batched_rows))
            self.figures.note("floor.pairs_per_s", round(self._floor.pairs))
        return self._floor

    async def guaranteed_floor(self) -> GuaranteedFloor:
        if self._guaranteed is None:
            say("floor with the ledger's guarantees")
            measured = await measure_guaranteed_floor(self.databases.floor_url)
            self.figures.note("floor.guaranteed_posts_per_s", round(measured.single))
            self.figures.note("floor.guaranteed_pairs_per_s", round(measured.pairs))
            self._guaranteed = measured
        return self._guaranteed


async def measure_sql(run: Run) -> None:
    floor, figures, found = await run.floor(), run.figures, run.databases
    guaranteed = await run.guaranteed_floor()
    say("SQL")
    await product_sql.prepare(found.owner_url)
    pairs = await product_sql.pairs_per_s(found.service_url)
    rows = await product_sql.batched_captures_per_s(found.service_url, BATCH)
    figures.note("sql.pairs_per_s", round(pairs))
    figures.note("sql.batched_captures_per_s", round(rows))
    figures.note("sql.pairs_over_guaranteed_floor", round(pairs / guaranteed.pairs, 3))
    figures.ratio("ledger.pairs_in_sql", pairs / floor.pairs, ">=", 0.40)
    figures.ratio("ledger.batched_captures", rows / floor.batched_rows, ">=", 0.35)


async def measure_service(run: Run) -> None:
    floor, figures = await run.floor(), run.figures
    guaranteed = await run.guaranteed_floor()
    say("service")
    # A service that has been running has summed what another part of this run has written.
    await roll_up(run.databases.service_url)
    async with running_service(run.databases.service_url) as service:
        await service.load(service.post, TENANTS, seconds=2.0)
        before = service.cpu_s()
        many = await service.load(service.post, TENANTS)
        cpu_s = (service.cpu_s() - before) / many.count
        hot = await service.load(service.post, 1)
        pairs = await service.load(service.pair, TENANTS)
        batches = await service.load(service.batch, TENANTS, seconds=4.0)
    figures.note("grpc.posts", str(many))
    figures.note("grpc.posts_per_s_on_one_tenant", round(hot.per_second))
    figures.note("grpc.pairs_per_s", round(pairs.per_second))
    figures.note("grpc.pairs_per_s_in_batches_of_100", round(100 * batches.per_second))
    figures.note("grpc.server_cpu_us_per_post", round(1e6 * cpu_s))
    posts = many.per_second / guaranteed.single
    figures.note("grpc.posts_over_guaranteed_floor", round(posts, 3))
    figures.ratio("ledger.grpc_posts", many.per_second / floor.single, ">=", 0.25)
    figures.ratio("ledger.hot_tenant", hot.per_second / many.per_second, ">=", 0.9)


async def measure_chain(run: Run) -> None:
    """The same posts with the hash chain and without it."""
    say("hash chain")
    share = await chain_share(run.databases.service_url)
    run.figures.ratio("ledger.hash_chain", share, "<=", 0.10)


async def measure_reports(run: Run) -> None:
    """A month's spending over millions of entries, of one tenant and of all."""
    figures, found = run.figures, run.databases
    say(f"reports over {run.entries} entries")
    start = time.perf_counter()
    await fill(found.owner_url, run.entries)
    figures.note("reports.fill_s", round(time.perf_counter() - start))
    start = time.perf_counter()
    rolled_up = await roll_up(found.service_url)
    figures.note("reports.rolled_up_per_s", round(rolled_up / (time.perf_counter() - start)))
    async with running_service(found.service_url) as service:
        reader = Reader(service)
        by_model = await reader.tenant_month_ms(*BY_MODEL)
        by_day_and_model = await reader.tenant_month_ms(*BY_DAY_AND_MODEL)
        platform = await reader.platform_month_ms(*BY_MODEL)
    for name, (p50, p95) in {
        "tenant_month_by_model": by_model,
        "tenant_month_by_day_and_model": by_day_and_model,
        "platform_month_by_model": platform,
    }.items():
        figures.note(f"reports.{name}", f"p50 {p50:.1f} ms, p95 {p95:.1f} ms")
    figures.ratio("ledger.tenant_month_p95_ms", by_day_and_model[1], "<=", 10)
    figures.ratio("ledger.platform_month_p95_ms", platform[1], "<=", 150)


async def roll_up(service_url: str) -> int:
    """Adds the journal to the daily sums, as the service does every few seconds."""
    engine = open_engine(service_url)
    try:
        return await RollupStore(engine).advance()
    finally:
        await engine.dispose()


PARTS = {
    "sql": measure_sql,
    "service": measure_service,
    "chain": measure_chain,
    "reports": measure_reports,
}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"any of {', '.join(PARTS)}")
    parser.add_argument(
        "--entries", type=int, default=5_000_000, help="size of the journal reports are read from"
    )
    chosen = parser.parse_args()
    figures = Figures("ledger")
    async with databases() as found:
        run = Run(figures, found, chosen.entries)
        for part in chosen.parts:
            await PARTS[part](run)
    figures.write()


if __name__ == "__main__":
    asyncio.run(main())
