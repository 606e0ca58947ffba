"""Prices no one knew, and prices that changed the past, elsewhere."""

from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from integration.cost_ledger.builders import make_usage, quantities, usd
from integration.cost_ledger.complaints.books import Books
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2

OUTPUT = make_usage(output_text=1000)
WORST_CASE = quantities(output_text=1000)


async def test_a_call_of_unknown_price_is_rejected_and_not_free(books: Books) -> None:
    """BerriAI/litellm#35691, #36561, #12337, #21023: unknown was zero, silently."""
    rejection = (await books.reserve(sku="llm/nobody-knows")).rejection
    assert rejection.reason == hold_pb2.REJECTION_REASON_UNKNOWN_PRICE


async def test_an_unknown_price_can_be_admitted_at_a_ceiling_that_budgets_count(
    books: Books,
) -> None:
    """BerriAI/litellm#25874: what had no price passed every budget."""
    await books.add_budget(limit="0.25")
    ceiling: dict[str, Any] = {
        "sku": "llm/nobody-knows",
        "unknown_price": hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT_AT_CEILING,
        "ceiling": usd("0.1"),
    }
    answers = [await books.reserve(**ceiling) for _ in range(3)]
    assert [answer.HasField("hold") for answer in answers] == [True, True, False]


async def test_calls_without_a_price_are_counted_as_such(books: Books) -> None:
    """openclaw/openclaw#85858: "missingCostEntries: 0" on 821,000 unpriced tokens."""
    entry = await books.record("unpriced", sku="llm/nobody-knows", usage=OUTPUT)
    await books.record("priced", usage=OUTPUT)
    (row,) = (await books.worker.ledger.ReportSpend(pb.ReportSpendRequest())).rows
    assert not entry.HasField("amount")
    assert (row.call_count, row.unpriced_call_count) == (2, 1)
    assert row.amounts[0].amount == "0.01"


async def test_a_new_price_leaves_the_past_as_it_was(books: Books) -> None:
    """ccusage/ccusage#1636, steipete/CodexBar#2671, kenn-io/agentsview#1540: it was rewritten."""
    await books.add_price("llm/own", {"output_text": ("1", "1000")})
    await books.record("before", sku="llm/own", usage=OUTPUT)
    await books.add_price("llm/own", {"output_text": ("5", "1000")}, start_time=_in(0))
    await books.record("after", sku="llm/own", usage=OUTPUT)
    assert [entry.amount.amount for entry in await books.entries()] == ["1", "5"]


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


async def test_a_call_costs_what_it_was_admitted_at(books: Books) -> None:
    """BerriAI/litellm#38730: what was shown and what was billed differed up to 5.4 times."""
    await books.add_price("llm/own", {"output_text": ("1", "1000")})
    await books.reserve("k", sku="llm/own", worst_case=WORST_CASE)
    await books.add_price("llm/own", {"output_text": ("5", "1000")}, start_time=_in(0))
    assert (await books.capture("k", OUTPUT)).amount.amount == "1"


def _in(distance: timedelta | int) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(datetime.now(UTC) + (distance or timedelta()))  # type: ignore[operator]
    return stamp
