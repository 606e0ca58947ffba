import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import grpc
import pytest_asyncio
from sqlalchemy import make_url

from cost_ledger.server import MIGRATIONS
from embedded_servers import Database
from integration.cost_ledger.builders import make_budget, make_price, make_reserve, usd
from integration.cost_ledger.running_ledger import Client, findings_of, running_ledger, set_clock
from integration.podium_kit.rpc.test_health import NOT_SERVING, SERVING, watch
from podium.common.v1 import usage_pb2
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.postgres.migrations import upgrade
from podium_kit.rpc.identity import Scope

Overdue = Callable[[], Awaitable[list[hold_pb2.Entry]]]


@pytest_asyncio.fixture
async def sweeping(database: Database, tmp_path: Path) -> AsyncIterator[tuple[Client, Overdue]]:
    async with running_ledger(
        await database("cost_ledger"), tmp_path, sweep_interval_s=0.05
    ) as ledger:
        specs = prices_pb.CreatePricesRequest(specs=[make_price()])
        await ledger.admin().prices.CreatePrices(specs)
        budget = budgets_pb.CreateBudgetRequest(budget=make_budget())
        await ledger.as_("acme", Scope.TENANT_ADMIN).budgets.CreateBudget(budget)
        client = ledger.as_("acme")

        async def overdue() -> list[hold_pb2.Entry]:
            before = len(await client.entries())
            await set_clock(ledger, "2 hours")
            while len(found := await client.entries()) == before:
                await asyncio.sleep(0.02)
            return found

        yield client, overdue


async def stands(client: Client) -> tuple[Any, Any]:
    reply = await client.budgets.GetBudget(budgets_pb.GetBudgetRequest(id="cap"))
    return reply.status.posted, reply.status.held


async def test_a_held_call_that_was_never_dispatched_is_given_back(
    sweeping: tuple[Client, Overdue],
) -> None:
    client, overdue = sweeping
    await client.ledger.Reserve(make_reserve("k"))
    *_, last = await overdue()
    assert (last.kind, last.key, last.amount) == (
        hold_pb2.ENTRY_KIND_RELEASE,
        "k",
        usd("0.01125"),
    )
    assert await stands(client) == (usd("0"), usd("0"))
    assert not await findings_of(client)


async def test_a_call_marked_as_dispatched_becomes_a_provisional_cost(
    sweeping: tuple[Client, Overdue],
) -> None:
    client, overdue = sweeping
    await client.ledger.Reserve(make_reserve("k"))
    marked = await client.ledger.MarkDispatched(pb.MarkDispatchedRequest(key="k"))
    assert marked.hold.dispatched
    *_, last = await overdue()
    assert (last.kind, last.amount) == (hold_pb2.ENTRY_KIND_CAPTURE, usd("0.01125"))
    assert last.usage.source == usage_pb2.USAGE_SOURCE_ESTIMATED
    assert {posting.account for posting in last.postings} >= {"provisional", "payable"}
    assert await stands(client) == (usd("0.01125"), usd("0"))
    assert not await findings_of(client)


async def test_a_provisional_cost_covers_the_most_expensive_model_that_may_have_answered(
    sweeping: tuple[Client, Overdue],
) -> None:
    client, overdue = sweeping
    fallback = hold_pb2.Fallback(model="other", sku="unknown")
    asked = make_reserve(
        "k",
        fallbacks=[fallback],
        unknown_price=hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT_AT_CEILING,
        ceiling=usd("0.5"),
        dispatched=True,
    )
    await client.ledger.Reserve(asked)
    await overdue()
    assert await stands(client) == (usd("0.5"), usd("0"))
    assert not await findings_of(client)


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
