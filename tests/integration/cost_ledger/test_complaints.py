"""Complaints about other platforms, tried on this ledger; every test is a tenant of its own."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import pytest
import pytest_asyncio
from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from embedded_servers import Databases
from integration.cost_ledger.builders import (
    make_capture,
    make_price,
    make_record,
    make_reserve,
    make_subject,
    make_usage,
    quantities,
    usd,
)
from integration.cost_ledger.running_ledger import Client, RunningLedger, running_ledger
from podium.common.v1 import usage_pb2
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.rpc.identity import Scope
from temporary_files import server_folder


@dataclass(frozen=True)
class Replicas:
    """Two servers over one database."""

    first: RunningLedger
    second: RunningLedger


@dataclass(frozen=True)
class Books:
    replicas: Replicas
    tenant: str

    @cached_property
    def worker(self) -> Client:
        return self.replicas.first.as_(self.tenant)

    @cached_property
    def other_worker(self) -> Client:
        return self.replicas.second.as_(self.tenant)

    @cached_property
    def admin(self) -> Client:
        return self.replicas.first.as_(self.tenant, Scope.TENANT_ADMIN)

    async def add_price(
        self, sku: str, components: Mapping[str, tuple[str, str]], **fields: Any
    ) -> None:
        """A price of this tenant alone."""
        spec = make_price(sku, components, tenant=self.tenant, **fields)
        operator = self.replicas.first.as_("operator", Scope.PLATFORM_ADMIN)
        await operator.prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[spec]))

    async def reserve(self, key: str = "", **fields: Any) -> pb.ReserveResponse:
        return await self.worker.ledger.Reserve(make_reserve(key, **fields))

    async def capture(self, key: str, usage: usage_pb2.Usage | None = None) -> hold_pb2.Entry:
        return (await self.worker.ledger.Capture(make_capture(key, usage))).entry

    async def record(self, key: str = "", **fields: Any) -> hold_pb2.Entry:
        return (await self.worker.ledger.Record(make_record(key, **fields))).entry

    async def entries(self, *kinds: int) -> list[hold_pb2.Entry]:
        request = pb.ListEntriesRequest(page_size=1000, kinds=kinds)  # type: ignore[arg-type]
        return list((await self.worker.ledger.ListEntries(request)).entries)

    async def charged(self) -> list[str]:
        entries = await self.entries(hold_pb2.ENTRY_KIND_CAPTURE, hold_pb2.ENTRY_KIND_RECORD)
        return [entry.key for entry in entries]


@pytest_asyncio.fixture(scope="module")
async def replicas(databases: Databases) -> AsyncIterator[Replicas]:
    url = await databases.create("cost_ledger")
    async with AsyncExitStack() as stack:
        started = []
        for _ in range(2):
            folder = stack.enter_context(server_folder("ledger"))
            started.append(await stack.enter_async_context(running_ledger(url, folder)))
        await (
            started[0]
            .admin()
            .prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[make_price()]))
        )
        yield Replicas(*started)


@pytest_asyncio.fixture
async def books(replicas: Replicas) -> Books:
    return Books(replicas, f"tenant-{uuid4().hex[:12]}")


HELD = hold_pb2.REJECTION_REASON_BUDGET_HELD
EXHAUSTED = hold_pb2.REJECTION_REASON_BUDGET_EXHAUSTED


@pytest_asyncio.fixture
async def waiting(books: Books) -> Books:
    """A call in progress holds $0.01125 of a budget of $0.02."""
    await books.admin.add_budget(limit="0.02")
    await books.reserve("first")
    return books


async def test_the_same_key_is_granted_once_the_other_call_has_ended(waiting: Books) -> None:
    rejection = (await waiting.reserve("second", asks_again=True)).rejection
    assert (rejection.reason, rejection.remaining.amount) == (HELD, "0.00875")
    await waiting.capture("first", make_usage(input_fresh=100))
    granted = await waiting.reserve("second", asks_again=True)
    assert granted.HasField("hold")
    assert await waiting.reserve("second") == granted


async def test_the_last_time_of_asking_is_the_answer_for_good(waiting: Books) -> None:
    assert (await waiting.reserve("second", asks_again=True)).rejection.reason == HELD
    last = await waiting.reserve("second")
    assert last.rejection.reason == EXHAUSTED
    await waiting.worker.ledger.Release(pb.ReleaseRequest(key="first"))
    assert await waiting.reserve("second", asks_again=True) == last


async def test_what_is_spent_is_not_waited_for(waiting: Books) -> None:
    await waiting.capture("first")
    expensive = quantities(input_fresh=1000, output_text=2000)
    reply = await waiting.reserve(worst_case=expensive, asks_again=True)
    assert reply.rejection.reason == EXHAUSTED


async def test_every_budget_has_to_have_room(waiting: Books) -> None:
    await waiting.admin.add_budget("small", limit="0.001")
    assert (await waiting.reserve(asks_again=True)).rejection.reason == EXHAUSTED


async def test_a_whole_answer_is_better_than_a_short_one_now(waiting: Books) -> None:
    fields = {"min_output_tokens": 64}
    assert (await waiting.reserve("second", asks_again=True, **fields)).rejection.reason == HELD
    clamped = (await waiting.reserve("second", **fields)).hold
    assert clamped.amount.amount == "0.00875"


async def test_what_the_shortest_answer_needs_is_waited_for(waiting: Books) -> None:
    expensive = quantities(input_fresh=1000, output_text=5000)
    await waiting.reserve("third", worst_case=quantities(input_fresh=7000))
    fields = {"worst_case": expensive, "min_output_tokens": 64}
    assert (await waiting.reserve("second", asks_again=True, **fields)).rejection.reason == HELD
    await waiting.worker.ledger.Release(pb.ReleaseRequest(key="first"))
    assert (
        await waiting.reserve("second", asks_again=True, **fields)
    ).hold.amount.amount == "0.01125"


async def test_a_model_that_is_free_is_admitted_when_the_budget_is_spent(books: Books) -> None:
    """BerriAI/litellm#14004, #29912: free local models were blocked too."""
    await books.add_price("llm/local", {"input_fresh": ("0", "1"), "output_text": ("0", "1")})
    await books.admin.add_budget(limit="0.00225")
    await books.record("spends-all")
    assert (await books.reserve()).HasField("rejection")
    assert (await books.reserve(sku="llm/local")).HasField("hold")


LOCK_ENTRIES = text("LOCK TABLE budget IN ACCESS EXCLUSIVE MODE")


async def test_budgets_charged_in_any_order_do_not_deadlock(books: Books) -> None:
    """BerriAI/litellm#6895, #27989: counter updates deadlocked."""
    names = [f"b{number}" for number in range(6)]
    for name in names:
        await books.admin.add_budget(name, "100", scope=budgets_pb.BUDGET_SCOPE_NAMED)

    async def spend(number: int) -> None:
        chosen = names[number % 6 :] + names[: number % 6]
        await books.reserve(f"k{number}", budget_ids=chosen[:4])
        await books.capture(f"k{number}")

    await asyncio.gather(*(spend(number) for number in range(60)))
    posted = [float((await books.worker.status(name)).posted.amount) for name in names]
    assert sum(posted) == pytest.approx(60 * 4 * 0.00225)


async def test_a_database_that_is_away_is_no_wrong_api_key(books: Books) -> None:
    """BerriAI/litellm#34479, #18708: exhausted connections turned into 401 for everyone."""
    engine = create_async_engine(books.replicas.first.database_url)
    async with engine.begin() as connection:
        await connection.execute(LOCK_ENTRIES)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await books.worker.ledger.Record(make_record("k"), timeout=0.5)
    await engine.dispose()
    assert failed.value.code() in {
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNAVAILABLE,
    }
    assert (await books.record("k")).key == "k"


async def test_an_answered_charge_is_in_the_database_and_not_in_a_buffer(books: Books) -> None:
    """BerriAI/litellm#19163, #23019: the buffer was silently off."""
    entry = await books.record("k")
    page = await books.other_worker.ledger.ListEntries(pb.ListEntriesRequest())
    assert [found.key for found in page.entries] == [entry.key]


@pytest.mark.parametrize("provider_id", ["chatcmpl-1", "", "None"])
async def test_calls_to_which_the_provider_gives_one_id_are_all_charged(
    books: Books, provider_id: str
) -> None:
    """BerriAI/litellm#28376 (Ollama), #39749 (null), #35563 (reused by the client)."""
    usage = make_usage(provider_id, input_fresh=1000, output_text=100)
    for key in ("a", "b", "c"):
        await books.record(key, usage=usage)
    assert await books.charged() == ["a", "b", "c"]


async def test_a_client_that_hangs_up_does_not_take_its_charge_along(books: Books) -> None:
    """BerriAI/litellm#14457, #13245, #33736, #36008: a disconnect lost the usage."""
    await books.reserve("k")
    call = asyncio.create_task(books.worker.ledger.Capture(make_capture("k")))
    await asyncio.sleep(0)
    call.cancel()
    assert (await books.capture("k")).amount.amount == "0.00225"
    assert await books.charged() == ["k"]


async def test_a_replica_that_stops_takes_no_acknowledged_usage_along(
    books: Books, tmp_path: Path
) -> None:
    """openmeterio/openmeter#4902: 77 s of accepted usage were gone after a rollout."""
    async with running_ledger(books.replicas.first.database_url, tmp_path) as rolled:
        worker = rolled.as_(books.tenant)
        await asyncio.gather(*(worker.ledger.Record(make_record(str(n))) for n in range(20)))
    assert sorted(await books.charged()) == sorted(map(str, range(20)))


async def test_a_call_that_was_made_but_never_captured_is_still_visible(books: Books) -> None:
    """BerriAI/litellm#6633: streams without a final usage left no trace."""
    await books.worker.ledger.Reserve(make_reserve("stream"))
    (held,) = await books.entries(hold_pb2.ENTRY_KIND_RESERVE)
    assert (held.key, held.amount.amount) == ("stream", "0.01125")


@pytest.mark.parametrize("subject", [{}, {"tool": "search"}, {"model": "gpt-5", "user": "eve"}])
async def test_a_tenants_budget_counts_whatever_the_call_is_for(
    books: Books, subject: dict[str, str]
) -> None:
    """BerriAI/litellm#26672, #38176: some routes were not counted."""
    await books.admin.add_budget(limit="0.001")
    answer = await books.reserve(subject=make_subject(**subject))
    assert answer.rejection.budget_id == "cap"


async def test_a_charge_counts_as_soon_as_it_is_answered(books: Books) -> None:
    """langwatch/langwatch#6141, wso2/api-platform#2932: the budget followed later."""
    await books.admin.add_budget(limit="0.005")
    await books.record("first")
    status = await books.other_worker.budgets.GetBudget(budgets_pb.GetBudgetRequest(id="cap"))
    assert status.status.posted.amount == "0.00225"


async def test_a_hold_committed_twice_at_once_is_charged_once(books: Books) -> None:
    """blnkfinance/blnk#181, #182: concurrent commits of one inflight transaction."""
    await books.reserve("k")
    captures = [books.worker.ledger.Capture(make_capture("k")) for _ in range(16)]
    captures += [books.other_worker.ledger.Capture(make_capture("k")) for _ in range(16)]
    answers = await asyncio.gather(*captures)
    assert len({answer.entry.sequence for answer in answers}) == 1
    assert await books.charged() == ["k"]


async def test_a_hold_captured_and_released_at_once_ends_one_way(books: Books) -> None:
    """blnkfinance/blnk#171: commit and void both went through."""
    await books.admin.add_budget()
    await books.reserve("k")
    release = books.worker.ledger.Release(pb.ReleaseRequest(key="k"))
    capture = books.other_worker.ledger.Capture(make_capture("k"))
    ends = await asyncio.gather(release, capture, return_exceptions=True)
    failed = [end for end in ends if isinstance(end, grpc.aio.AioRpcError)]
    assert [error.code() for error in failed] == [grpc.StatusCode.FAILED_PRECONDITION]
    posted = "0.00225" if isinstance(ends[0], grpc.aio.AioRpcError) else "0"
    status = await books.worker.status()
    assert (status.posted.amount, status.held.amount) == (posted, "0")


async def test_a_release_gives_back_in_every_budget_of_the_call(books: Books) -> None:
    """tigerbeetle/tigerbeetle#2955, #3382: several limits per call, voided one by one."""
    await books.admin.add_budget("tenant")
    await books.admin.add_budget(
        "episode", scope=budgets_pb.BUDGET_SCOPE_EPISODE, scope_id="episode-1"
    )
    await books.reserve("k")
    held = [(await books.worker.status(id)).held.amount for id in ("tenant", "episode")]
    await books.worker.ledger.Release(pb.ReleaseRequest(key="k"))
    after = [(await books.worker.status(id)).held.amount for id in ("tenant", "episode")]
    assert (held, after) == (["0.01125", "0.01125"], ["0", "0"])


OUTPUT = make_usage(output_text=1000)
WORST_CASE = quantities(output_text=1000)


async def test_an_unknown_price_can_be_admitted_at_a_ceiling_that_budgets_count(
    books: Books,
) -> None:
    """BerriAI/litellm#25874: what had no price passed every budget."""
    await books.admin.add_budget(limit="0.25")
    ceiling: dict[str, Any] = {
        "sku": "llm/nobody-knows",
        "unknown_price": hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT_AT_CEILING,
        "ceiling": usd("0.1"),
    }
    answers = [await books.reserve(**ceiling) for _ in range(3)]
    assert [answer.HasField("hold") for answer in answers] == [True, True, False]


async def test_a_price_takes_effect_when_it_says(books: Books) -> None:
    """mozilla-ai/any-llm#995: prices had no date."""
    await books.add_price("llm/own", {"output_text": ("1", "1000")})
    await books.add_price(
        "llm/own", {"output_text": ("5", "1000")}, start_time=_in(timedelta(hours=1))
    )
    entry = await books.record("now", sku="llm/own", usage=OUTPUT)
    assert entry.amount.amount == "1"


async def test_a_late_report_is_priced_by_the_day_it_was_used(books: Books) -> None:
    """ccusage/ccusage#1636: usage of a closed week was priced by today's map."""
    await books.add_price("llm/own", {"output_text": ("1", "1000")})
    await books.add_price("llm/own", {"output_text": ("5", "1000")}, start_time=_in(0))
    entry = await books.record(
        "late", sku="llm/own", usage=OUTPUT, occur_time=_in(timedelta(minutes=-10))
    )
    assert entry.amount.amount == "1"


def _in(distance: timedelta | int) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(datetime.now(UTC) + (distance or timedelta()))  # type: ignore[operator]
    return stamp


WITH_CACHE = {
    "input_fresh": ("3", "1000000"),
    "cache_read": ("0.3", "1000000"),
    "cache_write_short": ("3.75", "1000000"),
    "output_text": ("15", "1000000"),
    "reasoning": ("15", "1000000"),
}


async def test_reasoning_tokens_without_a_price_of_their_own_are_output(books: Books) -> None:
    """langfuse/langfuse#12531: reasoning was left out."""
    entry = await books.record("k", usage=make_usage(output_text=10, reasoning=990))
    assert entry.amount.amount == "0.01"


async def test_each_token_is_paid_for_once(books: Books) -> None:
    """langfuse/langfuse#10592, #5568: cached tokens were counted twice."""
    await books.add_price("llm/cached", WITH_CACHE)
    for key, usage in {
        "fresh": make_usage(input_fresh=1000),
        "cached": make_usage(cache_read=1000),
        "mixed": make_usage(input_fresh=500, cache_read=500),
    }.items():
        await books.record(key, sku="llm/cached", usage=usage)
    amounts = [entry.amount.amount for entry in await books.entries()]
    assert amounts == ["0.003", "0.0003", "0.00165"]


@pytest.mark.parametrize("usage", [make_usage(), make_usage(input_fresh=0, output_text=0)])
async def test_a_call_that_used_nothing_costs_nothing(books: Books, usage: object) -> None:
    """BerriAI/litellm#37992 (a zero was replaced by an estimate), langfuse/langfuse#2112."""
    await books.admin.add_budget()
    await books.reserve("k")
    entry = await books.capture("k", usage)  # type: ignore[arg-type]
    status = await books.worker.status()
    assert (entry.amount.amount, status.posted.amount, status.held.amount) == ("0", "0", "0")


async def test_the_cents_of_a_million_calls_add_up(books: Books) -> None:
    """BerriAI/litellm#40002: sums of floats depend on their order."""
    await books.add_price("tool/cheap", {"call": ("0.0003", "1")})
    await books.admin.add_budget(limit="0.003")
    for number in range(10):
        await books.record(str(number), sku="tool/cheap", usage=make_usage(call=1))
    assert (await books.worker.status()).remaining.amount == "0"
    row = (await books.worker.ledger.ReportSpend(pb.ReportSpendRequest())).rows[0]
    assert row.amounts[0].amount == "0.003"
