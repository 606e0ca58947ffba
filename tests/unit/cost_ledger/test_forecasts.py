from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from cost_ledger.budgets.models import Budget, BudgetScope, BudgetStatus, BudgetWindow
from cost_ledger.budgets.raises import BudgetRaise
from podium_kit.money import Money

LIMIT = Money(Decimal(10), "USD")
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def status(
    window: BudgetWindow,
    start: datetime,
    posted: str,
    now: datetime | None = None,
    *,
    zone: str = "UTC",
    created: datetime = LONG_AGO,
    end: datetime | None = None,
    raised: BudgetRaise | None = None,
) -> BudgetStatus:
    length = 3600.0 if window is BudgetWindow.ROLLING else 0.0
    budget = Budget(
        tenant="acme",
        id="team",
        scope=BudgetScope.TENANT,
        scope_id="",
        window=window,
        rolling_length_s=length,
        time_zone=zone,
        hard_limit=LIMIT,
        create_time=created,
        end_time=end,
        raised=raised,
    )
    return BudgetStatus(budget, start, Decimal(posted), Decimal(0), now or start)


@pytest.mark.parametrize(
    ("window", "start", "end"),
    [
        (BudgetWindow.DAY, "2026-03-28T23:00+00:00", "2026-03-29T22:00+00:00"),
        (BudgetWindow.WEEK, "2026-03-22T23:00+00:00", "2026-03-29T22:00+00:00"),
        (BudgetWindow.MONTH, "2026-02-28T23:00+00:00", "2026-03-31T22:00+00:00"),
    ],
)
def test_a_window_ends_at_midnight_of_its_zone_over_a_change_of_the_clock(
    window: BudgetWindow, start: str, end: str
) -> None:
    found = status(window, datetime.fromisoformat(start), "0", zone="Europe/Berlin").window_end
    assert found == datetime.fromisoformat(end)


def test_spending_as_so_far_is_the_forecast_and_says_when_the_limit_is_reached() -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    forecast = status(BudgetWindow.DAY, start, "5", start + timedelta(hours=6)).forecast
    assert forecast is not None
    assert forecast.posted == Money(Decimal(20), "USD")
    assert forecast.exhaust_time == start + timedelta(hours=12)
    within = status(BudgetWindow.DAY, start, "2", start + timedelta(hours=6)).forecast
    assert within is not None
    assert (within.posted.amount, within.exhaust_time) == (Decimal(8), None)


def test_a_budget_that_began_within_the_window_is_forecast_from_its_beginning() -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    created = start + timedelta(hours=12)
    begun = status(BudgetWindow.DAY, start, "1", created + timedelta(hours=3), created=created)
    forecast = begun.forecast
    assert forecast is not None
    assert forecast.posted.amount == Decimal(4)


@pytest.mark.parametrize(
    ("window", "passed_s"),
    [(BudgetWindow.TOTAL, 3600), (BudgetWindow.ROLLING, 3600), (BudgetWindow.DAY, 600)],
    ids=["without an end", "rolling", "just begun"],
)
def test_nothing_is_forecast_where_a_line_says_nothing(window: BudgetWindow, passed_s: int) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    assert status(window, start, "1", start + timedelta(seconds=passed_s)).forecast is None


def test_a_total_budget_is_forecast_for_its_own_end() -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    now, end = start + timedelta(days=1), start + timedelta(days=4)
    forecast = status(BudgetWindow.TOTAL, start, "1", now, created=start, end=end).forecast
    assert forecast is not None
    assert forecast.posted.amount == Decimal(4)


@pytest.mark.parametrize(
    ("ends_after_h", "posted", "exhausted_after_h"),
    [
        # 10 are allowed and 10 more until the end of the raise; an hour costs a sixth of `posted`.
        (20, "10", 12),
        (36, "10", 12),
        (10, "10", 10),
        (3, "10", 6),
        (9, "5", 12),
        (20, "5", 20),
        (24, "5", None),
        (20, "2", None),
    ],
)
def test_a_limit_that_falls_when_its_raise_ends_is_reached_then_or_on_the_line(
    ends_after_h: int, posted: str, exhausted_after_h: int | None
) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    until = start + timedelta(hours=ends_after_h)
    raised = BudgetRaise("r", Money(Decimal(10), "USD"), until, "launch", "ada")
    now = start + timedelta(hours=6)
    forecast = status(BudgetWindow.DAY, start, posted, now, raised=raised).forecast
    assert forecast is not None
    exhausted = None
    if exhausted_after_h is not None:
        exhausted = start + timedelta(hours=exhausted_after_h)
    assert forecast.exhaust_time == exhausted
