"""Budgets that were overshot or bypassed elsewhere."""

import asyncio

import grpc
import pytest

from integration.cost_ledger.builders import (
    make_capture,
    make_reserve,
    make_subject,
    make_usage,
    quantities,
)
from integration.cost_ledger.complaints.books import Books, admitted
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb

# The worst case of a call, `make_reserve`, is $0.01125: four fit into this.
FOUR_CALLS = "0.05"


async def test_calls_of_one_session_asked_at_once_do_not_pass_its_budget(books: Books) -> None:
    """BerriAI/litellm#34732, envoyproxy/ai-gateway#680: checked first, added later."""
    await books.add_budget(
        limit=FOUR_CALLS, scope=budgets_pb.BUDGET_SCOPE_EPISODE, scope_id="episode-1"
    )
    assert await admitted([books.reserve() for _ in range(64)]) == 4


async def test_the_first_calls_of_a_user_nobody_knows_do_not_pass_the_budget(books: Books) -> None:
    """BerriAI/litellm#40095: 264,000 times the budget, before the user had a row."""
    await books.add_budget(
        limit=FOUR_CALLS, scope=budgets_pb.BUDGET_SCOPE_USER, scope_id="newcomer"
    )
    subject = make_subject(user="newcomer")
    assert await admitted([books.reserve(subject=subject) for _ in range(64)]) == 4


async def test_long_prompts_are_held_with_their_output(books: Books) -> None:
    """BerriAI/litellm#40002: four of five long prompts admitted, $0.60 against $0.45."""
    await books.add_budget(limit="0.45")
    long = quantities(input_fresh=80_000, output_text=5_000)
    assert await admitted([books.reserve(worst_case=long) for _ in range(5)]) == 3


@pytest.mark.parametrize("subject", [{}, {"tool": "search"}, {"model": "gpt-5", "user": "eve"}])
async def test_a_tenants_budget_counts_whatever_the_call_is_for(
    books: Books, subject: dict[str, str]
) -> None:
    """BerriAI/litellm#26672, #38176: some routes were not counted."""
    await books.add_budget(limit="0.001")
    answer = await books.reserve(subject=make_subject(**subject))
    assert answer.rejection.budget_id == "cap"


async def test_a_budget_decides_the_very_next_call(books: Books) -> None:
    """BerriAI/litellm#27381: the limiter was built and never registered."""
    assert (await books.reserve()).HasField("hold")
    await books.add_budget(limit="0")
    assert (await books.reserve()).HasField("rejection")


async def test_a_tenants_own_price_counts_against_its_budget(books: Books) -> None:
    """BerriAI/litellm#25874: a custom price was taken for free."""
    await books.add_price("llm/own", {"output_text": ("1", "1000")})
    await books.add_budget(limit="2.5")
    calls = [
        books.reserve(sku="llm/own", worst_case=quantities(output_text=1000)) for _ in range(8)
    ]
    assert await admitted(calls) == 2


async def test_a_budget_counts_money_and_not_calls(books: Books) -> None:
    """envoyproxy/ai-gateway#2248: one unit was charged for a call of any size."""
    await books.add_budget(limit="0.02")
    usage = make_usage(input_fresh=1000, output_text=1500)
    await books.record("large", usage=usage)
    assert (await books.status()).remaining.amount == "0.00375"
    assert (await books.reserve()).HasField("rejection")


async def test_several_replicas_share_one_cap(books: Books) -> None:
    """maximhq/bifrost#3547: every replica had a cap of its own."""
    await books.add_budget(limit=FOUR_CALLS)
    other = books.other_worker.ledger
    calls = [other.Reserve(make_reserve()) for _ in range(32)]
    assert await admitted([*calls, *(books.reserve() for _ in range(32))]) == 4


async def test_a_charge_counts_as_soon_as_it_is_answered(books: Books) -> None:
    """langwatch/langwatch#6141, wso2/api-platform#2932: the budget followed later."""
    await books.add_budget(limit="0.005")
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
    await books.add_budget()
    await books.reserve("k")
    release = books.worker.ledger.Release(pb.ReleaseRequest(key="k"))
    capture = books.other_worker.ledger.Capture(make_capture("k"))
    ends = await asyncio.gather(release, capture, return_exceptions=True)
    failed = [end for end in ends if isinstance(end, grpc.aio.AioRpcError)]
    assert [error.code() for error in failed] == [grpc.StatusCode.FAILED_PRECONDITION]
    posted = "0.00225" if isinstance(ends[0], grpc.aio.AioRpcError) else "0"
    status = await books.status()
    assert (status.posted.amount, status.held.amount) == (posted, "0")


async def test_a_release_gives_back_in_every_budget_of_the_call(books: Books) -> None:
    """tigerbeetle/tigerbeetle#2955, #3382: several limits per call, voided one by one."""
    await books.add_budget("tenant")
    await books.add_budget("episode", scope=budgets_pb.BUDGET_SCOPE_EPISODE, scope_id="episode-1")
    await books.reserve("k")
    held = [(await books.status(id)).held.amount for id in ("tenant", "episode")]
    await books.worker.ledger.Release(pb.ReleaseRequest(key="k"))
    after = [(await books.status(id)).held.amount for id in ("tenant", "episode")]
    assert (held, after) == (["0.01125", "0.01125"], ["0", "0"])
