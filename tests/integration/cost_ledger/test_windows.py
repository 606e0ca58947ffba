from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from sqlalchemy import text

from integration.cost_ledger.builders import (
    make_budget,
    make_capture,
    make_record,
    make_reserve,
    usd,
)
from integration.cost_ledger.running_ledger import (
    Client,
    RunningLedger,
    as_owner,
    findings_of,
    set_clock,
)
from podium.ledger.v1 import budget_service_pb2 as pb
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium_kit.rpc.pages import encode_page_token

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    # Offsets of half and quarter hours.
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "America/St_Johns",
    # Its clocks change by half an hour.
    "Australia/Lord_Howe",
    # Their clocks change at midnight, so that a day starts at one or has two midnights.
    "America/Havana",
    "Africa/Cairo",
    "Pacific/Auckland",
]
LOCAL: dict[int, Callable[[date], date]] = {
    pb.BUDGET_WINDOW_DAY: lambda day: day,
    pb.BUDGET_WINDOW_WEEK: lambda day: day - timedelta(days=day.weekday()),
    pb.BUDGET_WINDOW_MONTH: lambda day: day.replace(day=1),
}


def critical_instants(zone: ZoneInfo) -> Iterator[datetime]:
    """Both sides of every change of the clock and of every local midnight of a year."""
    hour = datetime(2025, 1, 1, tzinfo=UTC)
    while hour.year == 2025:
        following = hour + timedelta(hours=1)
        one, other = hour.astimezone(zone), following.astimezone(zone)
        if one.utcoffset() != other.utcoffset() or one.date() != other.date():
            yield from (hour + timedelta(minutes=15 * quarter) for quarter in range(-8, 9))
        hour = following


async def windows_of(client: Client, budget_id: str) -> set[datetime]:
    """Starts of the windows with spending in them: each has passed its soft limit once."""
    found: set[datetime] = set()
    token = ""
    while True:
        request = pb.ListAlertsRequest(page_size=500, page_token=token, budget_id=budget_id)
        page = await client.budgets.ListAlerts(request)
        starts = [alert.window_start.ToDatetime(tzinfo=UTC) for alert in page.alerts]
        assert not found & set(starts)
        found.update(starts)
        token = page.next_page_token
        if not token:
            return found


async def add_budget(client: Client, id: str, **fields: Any) -> None:
    budget = make_budget(id, "1000", soft_limits=[usd("0.000001")], **fields)
    await client.budgets.CreateBudget(pb.CreateBudgetRequest(budget=budget))


@pytest.mark.parametrize("name", ZONES)
async def test_every_instant_is_in_the_one_window_of_its_local_date(
    worker: Client, admin: Client, name: str
) -> None:
    zone = ZoneInfo(name)
    instants = sorted(set(critical_instants(zone)))
    # The dates around the changes of the clock, and a few ends of months and weeks.
    chosen = [
        moment
        for moment in instants
        if moment.month in (3, 4, 9, 10, 11) and moment.astimezone(zone).day in (1, 2, 30, 31)
    ]
    chosen += [
        moment
        for moment in instants
        if moment.astimezone(zone).utcoffset()
        != (moment + timedelta(hours=3)).astimezone(zone).utcoffset()
    ]
    for window in LOCAL:
        await add_budget(admin, f"w{window}", window=window, time_zone=name)
    batch = ledger_pb.ApplyRequest()
    for number, moment in enumerate(chosen):
        record = make_record(f"k{number}")
        record.occur_time.FromDatetime(moment)
        batch.operations.add(record=record)
    await worker.ledger.Apply(batch)
    for window, local_start in LOCAL.items():
        expected = {local_start(moment.astimezone(zone).date()) for moment in chosen}
        starts = await windows_of(worker, f"w{window}")
        # An hour after its start a window is on its first date, also where midnight is skipped.
        first_dates = {(start + timedelta(hours=1)).astimezone(zone).date() for start in starts}
        assert first_dates == expected
        assert len(starts) == len(expected)


async def test_the_day_of_25_hours_is_one_window_and_the_one_of_23_too(
    worker: Client, admin: Client
) -> None:
    zone = ZoneInfo("Europe/Berlin")
    await add_budget(admin, "day", window=pb.BUDGET_WINDOW_DAY, time_zone=zone.key)
    for day in (datetime(2025, 10, 26, tzinfo=zone), datetime(2025, 3, 30, tzinfo=zone)):
        start, end = day.astimezone(UTC), (day + timedelta(days=1)).astimezone(UTC)
        hours = int((end - start) / timedelta(hours=1))
        assert hours in (23, 25)
        for hour in range(hours):
            record = make_record(f"{day:%m-%d}/{hour}")
            record.occur_time.FromDatetime(start + timedelta(hours=hour, minutes=59))
            await worker.ledger.Record(record)
        assert start in await windows_of(worker, "day")
    assert len(await windows_of(worker, "day")) == 2


FORGE = text("ALTER TABLE budget_version DISABLE TRIGGER immutable")
LOWER = text("UPDATE budget_version SET hard_limit = 0.03")


async def open_rolling(admin: Client, limit: str) -> None:
    budget = make_budget(
        "cap",
        limit,
        window=pb.BUDGET_WINDOW_ROLLING,
        rolling_length=timedelta(hours=1),
    )
    await admin.budgets.CreateBudget(pb.CreateBudgetRequest(budget=budget))


async def test_holds_of_the_hour_before_count_and_older_ones_do_not(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    """$0.0225 fits twice an hour for ever, though three hours hold more than the limit."""
    await open_rolling(admin, "0.0225")
    for hour in range(3):
        await set_clock(ledger, f"{62 * hour} minutes")
        for number in range(2):
            key = f"k{hour}{number}"
            assert (await worker.ledger.Reserve(make_reserve(key))).HasField("hold")
        assert (await worker.ledger.Reserve(make_reserve(f"more{hour}"))).HasField("rejection")
    # A late capture counts in the bucket of its hold, which the last hour has left behind.
    await worker.ledger.Capture(make_capture("k00"))
    assert not await findings_of(worker)


async def test_a_hold_that_passed_the_limit_of_its_hour_is_found(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    """Three holds within an hour under a limit for four, which is lowered afterwards."""
    await open_rolling(admin, "0.045")
    for minute, key in ((0, "k0"), (30, "k1"), (59, "k2"), (200, "k3")):
        await set_clock(ledger, f"{minute} minutes")
        await worker.ledger.Reserve(make_reserve(key))
    assert not await findings_of(worker)
    async with as_owner(ledger) as connection:
        await connection.execute(FORGE)
        await connection.execute(LOWER)
    (found,) = await findings_of(worker)
    assert (found.rule, found.row) == ("I4", "entry 3")
    assert "0.03375" in found.problem


async def counted(client: Client, id: str, size: int = 2) -> list[pb.CountedWindow]:
    """Returns the windows of all pages."""
    found: list[pb.CountedWindow] = []
    request = pb.ListBudgetWindowsRequest(id=id, page_size=size)
    while True:
        page = await client.budgets.ListBudgetWindows(request)
        found += page.windows
        request.page_token = page.next_page_token
        if not request.page_token:
            return found


async def test_past_windows_are_listed_with_what_they_counted_and_their_own_limit(
    ledger: RunningLedger, worker: Client, admin: Client
) -> None:
    days = {"day": pb.BUDGET_WINDOW_DAY, "all": pb.BUDGET_WINDOW_TOTAL}
    for id, kind in days.items():
        budget = make_budget(id, "10", window=kind, time_zone="Europe/Berlin")
        await admin.budgets.CreateBudget(pb.CreateBudgetRequest(budget=budget))
    for day in range(3):
        await set_clock(ledger, f"{day} days")
        for call in range(day + 1):
            await worker.ledger.Record(make_record(f"k{day}/{call}"))
        if day == 1:
            mask = FieldMask(paths=["hard_limit"])
            change = pb.UpdateBudgetRequest(id="day", hard_limit=usd("20"), update_mask=mask)
            await admin.budgets.UpdateBudget(change)
    await worker.ledger.Reserve(make_reserve("held"))
    windows = await counted(worker, "day")
    starts = [window.start_time.ToDatetime(tzinfo=UTC) for window in windows]
    assert starts == sorted(starts, reverse=True)
    assert [window.posted for window in windows] == [usd("0.00675"), usd("0.0045"), usd("0.00225")]
    assert [window.held for window in windows] == [usd("0.01125"), usd("0"), usd("0")]
    assert [window.hard_limit for window in windows] == [usd("20"), usd("20"), usd("10")]
    for start, listed in zip(starts, windows, strict=True):
        local = start.astimezone(ZoneInfo("Europe/Berlin"))
        assert (local.hour, local.minute) == (0, 0)
        assert listed.end_time.ToDatetime(tzinfo=UTC) > start
    [total] = await counted(worker, "all")
    assert (total.posted, total.HasField("end_time")) == (usd("0.0135"), False)


async def test_windows_of_no_budget_and_tokens_of_others_are_rejected(worker: Client) -> None:
    for code, request in (
        (grpc.StatusCode.NOT_FOUND, pb.ListBudgetWindowsRequest(id="none")),
        *(
            (
                grpc.StatusCode.INVALID_ARGUMENT,
                pb.ListBudgetWindowsRequest(
                    id="none", page_token=encode_page_token({"before_window": before})
                ),
            )
            for before in ("yesterday", "2026-10-01T00:00:00", "0001-01-01T00:00:00+10:00")
        ),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await worker.budgets.ListBudgetWindows(request)
        assert error.value.code() is code
