from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import grpc
from sqlalchemy import make_url

from cost_ledger.server import MIGRATIONS
from integration.cost_ledger.running_ledger import running_ledger
from integration.podium_kit.rpc.test_health import NOT_SERVING, SERVING, watch
from podium_kit.postgres.migrations import upgrade


async def test_a_roll_up_that_times_out_shows_in_health_until_it_succeeds(
    database: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    url = await database()
    owner_url = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    owner = await asyncpg.connect(owner_url)
    await upgrade(url, MIGRATIONS)
    await owner.execute(
        f"ALTER ROLE cost_ledger_service IN DATABASE {make_url(url).database}"
        " SET statement_timeout = '500ms'"
    )
    async with (
        running_ledger(url, tmp_path, rollup_interval_s=0.1) as ledger,
        grpc.aio.insecure_channel(f"127.0.0.1:{ledger.port}") as channel,
    ):
        states = watch(channel, "background/roll-up")
        assert await anext(states) == SERVING
        async with owner.transaction():
            await owner.execute("LOCK TABLE rollup_watermark IN ACCESS EXCLUSIVE MODE")
            assert await anext(states) == NOT_SERVING
            assert await anext(watch(channel, "podium.ledger.v1.CostLedgerService")) == SERVING
        assert await anext(states) == SERVING
    await owner.close()
