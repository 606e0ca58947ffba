"""Databases that stood still and windows that reset wrongly, elsewhere."""

import asyncio
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import grpc
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from integration.cost_ledger.builders import make_record
from integration.cost_ledger.complaints.books import Books
from podium.ledger.v1 import budget_service_pb2 as budgets_pb

LOCK_ENTRIES = text("LOCK TABLE budget IN ACCESS EXCLUSIVE MODE")


async def test_budgets_charged_in_any_order_do_not_deadlock(books: Books) -> None:
    """BerriAI/litellm#6895, #27989: counter updates deadlocked."""
    names = [f"b{number}" for number in range(6)]
    for name in names:
        await books.add_budget(name, "100", scope=budgets_pb.BUDGET_SCOPE_NAMED)

    async def spend(number: int) -> None:
        chosen = names[number % 6 :] + names[: number % 6]
        await books.reserve(f"k{number}", budget_ids=chosen[:4])
        await books.capture(f"k{number}")

    await asyncio.gather(*(spend(number) for number in range(60)))
    posted = [float((await books.status(name)).posted.amount) for name in names]
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


async def test_a_day_ends_at_midnight_of_its_time_zone(books: Books) -> None:
    """BerriAI/litellm#34896: late by the offset, so that "$100 a day" covered 32 hours."""
    zone = ZoneInfo("America/Los_Angeles")
    await books.add_budget(window=budgets_pb.BUDGET_WINDOW_DAY, time_zone=zone.key)
    midnight = datetime.now(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    for key, moment in (("yesterday", midnight - timedelta(seconds=1)), ("today", midnight)):
        record = make_record(key)
        record.occur_time.FromDatetime(moment.astimezone(UTC))
        await books.worker.ledger.Record(record)
    status = await books.status()
    assert status.window_start.ToDatetime(tzinfo=UTC) == midnight.astimezone(UTC)
    assert status.posted.amount == "0.00225"


async def test_a_window_ends_within_its_length(books: Books) -> None:
    """BerriAI/litellm#24675, #5651, #10288: it never reset, or at the time of first use."""
    lengths = {
        budgets_pb.BUDGET_WINDOW_DAY: timedelta(days=1, hours=1),
        budgets_pb.BUDGET_WINDOW_WEEK: timedelta(days=7, hours=1),
        budgets_pb.BUDGET_WINDOW_MONTH: timedelta(days=31, hours=1),
    }
    for window, longest in lengths.items():
        id = budgets_pb.BudgetWindow.Name(window)
        await books.add_budget(id, window=window, time_zone="Europe/Berlin")
        start = (await books.status(id)).window_start.ToDatetime(tzinfo=UTC)
        assert timedelta() <= datetime.now(UTC) - start <= longest


async def test_a_week_starts_on_monday(books: Books) -> None:
    """BerriAI/litellm#33161: the weekday depended on the first use."""
    zone = ZoneInfo("Asia/Kolkata")
    await books.add_budget(window=budgets_pb.BUDGET_WINDOW_WEEK, time_zone=zone.key)
    start = (await books.status()).window_start.ToDatetime(tzinfo=UTC).astimezone(zone)
    assert (start.weekday(), start.hour, start.minute) == (0, 0, 0)
