"""BerriAI/litellm#38647, #27639: calls were rejected for what others held and gave back."""

import pytest_asyncio

from integration.cost_ledger.builders import make_usage, quantities
from integration.cost_ledger.complaints.books import Books
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2

HELD = hold_pb2.REJECTION_REASON_BUDGET_HELD
EXHAUSTED = hold_pb2.REJECTION_REASON_BUDGET_EXHAUSTED


@pytest_asyncio.fixture(autouse=True)
async def call_in_progress(books: Books) -> None:
    """Of $0.01125 at most, of a budget of 0.02."""
    await books.add_budget(limit="0.02")
    await books.reserve("first")


async def test_the_same_key_is_granted_once_the_other_call_has_ended(books: Books) -> None:
    rejection = (await books.reserve("second", asks_again=True)).rejection
    assert (rejection.reason, rejection.remaining.amount) == (HELD, "0.00875")
    await books.capture("first", make_usage(input_fresh=100))
    granted = await books.reserve("second", asks_again=True)
    assert granted.HasField("hold")
    assert await books.reserve("second") == granted


async def test_the_last_time_of_asking_is_the_answer_for_good(books: Books) -> None:
    assert (await books.reserve("second", asks_again=True)).rejection.reason == HELD
    last = await books.reserve("second")
    assert last.rejection.reason == EXHAUSTED
    await books.worker.ledger.Release(pb.ReleaseRequest(key="first"))
    assert await books.reserve("second", asks_again=True) == last


async def test_what_is_spent_is_not_waited_for(books: Books) -> None:
    await books.capture("first")
    expensive = quantities(input_fresh=1000, output_text=2000)
    reply = await books.reserve(worst_case=expensive, asks_again=True)
    assert reply.rejection.reason == EXHAUSTED


async def test_every_budget_has_to_have_room(books: Books) -> None:
    await books.add_budget("small", limit="0.001")
    assert (await books.reserve(asks_again=True)).rejection.reason == EXHAUSTED


async def test_a_whole_answer_is_better_than_a_short_one_now(books: Books) -> None:
    fields = {"min_output_tokens": 64}
    assert (await books.reserve("second", asks_again=True, **fields)).rejection.reason == HELD
    clamped = (await books.reserve("second", **fields)).hold
    assert clamped.amount.amount == "0.00875"


async def test_what_the_shortest_answer_needs_is_waited_for(books: Books) -> None:
    expensive = quantities(input_fresh=1000, output_text=5000)
    await books.reserve("third", worst_case=quantities(input_fresh=7000))
    fields = {"worst_case": expensive, "min_output_tokens": 64}
    assert (await books.reserve("second", asks_again=True, **fields)).rejection.reason == HELD
    await books.worker.ledger.Release(pb.ReleaseRequest(key="first"))
    assert (
        await books.reserve("second", asks_again=True, **fields)
    ).hold.amount.amount == "0.01125"
