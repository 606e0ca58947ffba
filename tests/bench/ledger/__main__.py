"""`make bench-ledger`: the ledger in SQL and over gRPC, against the least SQL there is."""

import argparse
import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figures, say
from bench.ledger import product_sql
from bench.ledger.chain import link_seconds
from bench.ledger.floor import BATCH, Floor, measure_floor
from bench.ledger.service import TENANTS, running_service
from cost_ledger.server import MIGRATIONS
from embedded import EmbeddedPostgres
from integration.cost_ledger.running_ledger import as_service
from rpckit.migrations import upgrade


@dataclass
class Databases:
    """One server: the floor's database and the ledger's, as owner and as service."""

    server: EmbeddedPostgres
    floor_url: str
    owner_url: str

    @property
    def service_url(self) -> str:
        """The ledger's database as its service logs in."""
        return as_service(self.owner_url)


@asynccontextmanager
async def databases() -> AsyncIterator[Databases]:
    """Fresh databases on a server of their own."""
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


async def measure_sql(figures: Figures, found: Databases, floor: Floor) -> None:
    """What the database does for a call, without any of our processes."""
    say("SQL")
    await product_sql.prepare(found.owner_url)
    pairs = await product_sql.pairs_per_s(found.service_url)
    rows = await product_sql.batched_captures_per_s(found.service_url, BATCH)
    figures.note("sql.pairs_per_s", round(pairs))
    figures.note("sql.batched_captures_per_s", round(rows))
    figures.ratio("ledger.pairs_in_sql", pairs / floor.pairs, ">=", 0.40)
    figures.ratio("ledger.batched_captures", rows / floor.batched_rows, ">=", 0.35)


async def measure_service(figures: Figures, found: Databases, floor: Floor) -> None:
    """Durable posts over gRPC with the client beside it, over many tenants and over one."""
    say("service")
    async with running_service(found.service_url) as service:
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
    figures.note("chain.us_per_entry", round(1e6 * link_seconds(), 2))
    figures.ratio("ledger.grpc_posts", many.per_second / floor.single, ">=", 0.25)
    figures.ratio("ledger.hot_tenant", hot.per_second / many.per_second, ">=", 0.9)
    figures.ratio("ledger.hash_chain", link_seconds() / cpu_s, "<=", 0.10)


async def main() -> None:
    """Runs the floor and the parts asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = {"sql": measure_sql, "service": measure_service}
    parser.add_argument("parts", nargs="*", default=list(parts), help=f"any of {', '.join(parts)}")
    chosen = parser.parse_args().parts
    figures = Figures("ledger")
    async with databases() as found:
        say("floor")
        floor = await measure_floor(found.floor_url)
        figures.note("floor.single_posts_per_s", round(floor.single))
        figures.note("floor.batched_rows_per_s", round(floor.batched_rows))
        figures.note("floor.pairs_per_s", round(floor.pairs))
        for part in chosen:
            await parts[part](figures, found, floor)
    figures.write()


if __name__ == "__main__":
    asyncio.run(main())
