"""Amounts that were wrong elsewhere: caches, reasoning, zeros, backends."""

from decimal import Decimal

import pytest

from integration.cost_ledger.builders import make_usage
from integration.cost_ledger.complaints.books import Books
from podium.ledger.v1 import cost_ledger_service_pb2 as pb

WITH_CACHE = {
    "input_fresh": ("3", "1000000"),
    "cache_read": ("0.3", "1000000"),
    "cache_write_5m": ("3.75", "1000000"),
    "output_text": ("15", "1000000"),
    "reasoning": ("15", "1000000"),
}


async def test_a_month_of_calls_is_their_exact_sum(books: Books) -> None:
    """BerriAI/litellm#8514, #12313: $26.74 for $770, or three times the bill."""
    for number in range(50):
        await books.record(str(number), usage=make_usage(input_fresh=333, output_text=77))
    assert await books.spent() == 50 * (Decimal("0.00041625") + Decimal("0.00077"))


async def test_cached_tokens_cost_their_own_price(books: Books) -> None:
    """BerriAI/litellm#11364: the cache discount was not applied."""
    await books.add_price("llm/cached", WITH_CACHE)
    usage = make_usage(input_fresh=100, cache_read=1000, cache_write_5m=200, output_text=10)
    entry = await books.record("k", sku="llm/cached", usage=usage)
    assert Decimal(entry.amount.amount) == Decimal("0.0015")


@pytest.mark.parametrize("dimension", ["cache_read", "cache_write_5m", "cache_write_1h"])
async def test_cached_tokens_without_a_price_of_their_own_are_not_free(
    books: Books, dimension: str
) -> None:
    """BerriAI/litellm#29145, #42663, Metabuilder-Labs/tokenjam#620: cache billed at $0."""
    entry = await books.record("k", usage=make_usage("", **{dimension: 1000}))
    assert entry.amount.amount == "0.00125"


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
    await books.add_budget()
    await books.reserve("k")
    entry = await books.capture("k", usage)  # type: ignore[arg-type]
    status = await books.status()
    assert (entry.amount.amount, status.posted.amount, status.held.amount) == ("0", "0", "0")


async def test_the_price_is_that_of_the_backend_that_answered(books: Books) -> None:
    """Helicone/helicone#4893: the wrong backend was priced."""
    await books.add_price("one/llama", {"output_text": ("0.9", "1000000")})
    await books.add_price("two/llama", {"output_text": ("0.2", "1000000")})
    usage = make_usage(output_text=1_000_000)
    amounts = [
        (await books.record(sku, sku=sku, usage=usage)).amount.amount
        for sku in ("one/llama", "two/llama")
    ]
    assert amounts == ["0.9", "0.2"]


async def test_the_cents_of_a_million_calls_add_up(books: Books) -> None:
    """BerriAI/litellm#40002: sums of floats depend on their order."""
    await books.add_price("tool/cheap", {"call": ("0.0003", "1")})
    await books.add_budget(limit="0.003")
    for number in range(10):
        await books.record(str(number), sku="tool/cheap", usage=make_usage(call=1))
    assert (await books.status()).remaining.amount == "0"
    row = (await books.worker.ledger.ReportSpend(pb.ReportSpendRequest())).rows[0]
    assert row.amounts[0].amount == "0.003"
