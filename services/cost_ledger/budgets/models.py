"""Budgets, their windows, and alerts of soft limits that were passed.

The database raises an alert in the transaction that moves the money, once per budget, window and
soft limit, so no caller can forget it and no concurrency can double it.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from zoneinfo import ZoneInfo, available_timezones

from cost_ledger.budgets.raises import BudgetRaise
from cost_ledger.errors import BudgetChanged, BudgetEnded, InvalidBudget
from podium_kit.money import Money

ID_CHARACTERS_MAX = 128
CLOCK_SKEW_MAX = timedelta(minutes=5)
ROLLING_MIN_S = 60.0
ROLLING_MAX_S = 31 * 86_400.0
SHARES_MAX = 5
SHARE_PLACES = 4
# "localtime" is whatever a machine's is; PostgreSQL's own list does not have it.
TIME_ZONES = frozenset(available_timezones()) - {"localtime"}


class BudgetScope(StrEnum):
    TENANT = "tenant"
    TEAM = "team"
    USER = "user"
    AGENT = "agent"
    EPISODE = "episode"
    NAMED = "named"
    KEY = "key"
    TOOL = "tool"
    MODEL = "model"


class BudgetWindow(StrEnum):
    """A new window is a new row, never a reset."""

    TOTAL = "total"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    ROLLING = "rolling"


@dataclass(frozen=True, slots=True)
class Budget:
    """`create_time` and `close_time` are None until the store fills them."""

    tenant: str
    id: str
    scope: BudgetScope
    scope_id: str
    window: BudgetWindow
    rolling_length_s: float
    time_zone: str
    hard_limit: Money
    soft_limits: tuple[Money, ...] = ()
    # None: from its creation, until it is closed.
    start_time: datetime | None = None
    end_time: datetime | None = None
    create_time: datetime | None = None
    close_time: datetime | None = None
    # Counts from 1; 0 until the store fills it.
    version: int = 0
    # Of the limit that holds when they are passed.
    soft_limit_shares: tuple[Decimal, ...] = ()
    # The last one, also when it is over.
    raised: BudgetRaise | None = None

    def __post_init__(self) -> None:
        if not self.id or len(self.id) > ID_CHARACTERS_MAX or "\0" in self.id:
            raise InvalidBudget(f"id must have 1 to {ID_CHARACTERS_MAX} characters")
        if self.time_zone not in TIME_ZONES:
            raise InvalidBudget(f"time_zone {self.time_zone!r} is no IANA zone like Europe/Berlin")
        self._check_scope()
        self._check_window()
        self._check_limits()

    def _check_scope(self) -> None:
        needs_id = self.scope not in (BudgetScope.TENANT, BudgetScope.NAMED)
        if needs_id and (not self.scope_id or "\0" in self.scope_id):
            raise InvalidBudget(f"scope_id is unset; name the {self.scope.value} it covers")
        if not needs_id and self.scope_id:
            raise InvalidBudget(f"scope_id must be unset for the scope {self.scope.value}")

    def _check_window(self) -> None:
        rolling = self.window is BudgetWindow.ROLLING
        if rolling and not ROLLING_MIN_S <= self.rolling_length_s <= ROLLING_MAX_S:
            raise InvalidBudget("rolling_length must be between one minute and 31 days")
        if not rolling and self.rolling_length_s:
            raise InvalidBudget("rolling_length must be unset unless the window is ROLLING")
        if self.start_time and self.end_time and self.end_time <= self.start_time:
            raise InvalidBudget("end_time must be after start_time")

    def _check_limits(self) -> None:
        for limit in (self.hard_limit, *self.soft_limits):
            if limit.amount < 0:
                raise InvalidBudget(f"limit {limit} is negative")
            if limit.currency_code != self.hard_limit.currency_code:
                raise InvalidBudget("soft limits must be in the currency of the hard limit")
            if limit.amount > self.hard_limit.amount:
                raise InvalidBudget(f"soft limit {limit} is above the hard limit: never reached")
        if self.raised:
            # Raises InvalidMoney where the sum is out of range.
            _ = self.hard_limit + self.raised.amount
        self._check_shares()

    def _check_shares(self) -> None:
        shares = self.soft_limit_shares
        if len(shares) > SHARES_MAX:
            raise InvalidBudget(f"{len(shares)} soft_limit_shares; give at most {SHARES_MAX}")
        for share in shares:
            if not share.is_finite() or not 0 < share <= 1 or share != round(share, SHARE_PLACES):
                raise InvalidBudget(
                    f"soft_limit_shares has {share}; give shares above 0 and at most 1 with at "
                    f"most {SHARE_PLACES} decimals, like 0.8"
                )
        if list(shares) != sorted(set(shares)):
            raise InvalidBudget("soft_limit_shares must ascend, each once, like 0.8, 0.95")

    def limit_at(self, now: datetime) -> Money:
        """Returns the hard limit, and with it a raise that holds."""
        raised = self.raised
        return self.hard_limit + raised.amount if raised and raised.holds(now) else self.hard_limit

    def with_raise(self, raised: BudgetRaise, now: datetime) -> "Budget":
        """Raises BudgetEnded, InvalidBudget."""
        self.check_open(now)
        raised.check_new(now)
        if raised.amount.currency_code != self.hard_limit.currency_code:
            raise InvalidBudget(
                f"budget {self.id} counts {self.hard_limit.currency_code}; {raised.amount} is "
                "another currency"
            )
        return replace(self, raised=raised, version=self.version + 1)

    def check_not_past(self, now: datetime) -> None:
        """Raises InvalidBudget for a start in the past, whose spending was not counted."""
        if self.start_time and self.start_time < now - CLOCK_SKEW_MAX:
            raise InvalidBudget(
                "start_time is in the past; what was spent before the budget existed was not "
                "counted: leave it unset for now"
            )
        self.check_end(now)

    def check_end(self, now: datetime) -> None:
        if self.end_time and self.end_time <= now:
            raise InvalidBudget("end_time is in the past; the budget would decide no call")

    def check_open(self, now: datetime) -> None:
        if self.close_time:
            raise BudgetEnded(self.id, "closed")
        if self.end_time and self.end_time <= now:
            raise BudgetEnded(self.id, f"over since {self.end_time.isoformat()}")


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    budget: Budget
    window_start: datetime
    posted: Decimal
    held: Decimal
    read_time: datetime

    @property
    def limit(self) -> Money:
        return self.budget.limit_at(self.read_time)

    @property
    def remaining(self) -> Decimal:
        return max(Decimal(0), self.limit.amount - self.posted - self.held)

    @property
    def window_end(self) -> datetime | None:
        """None of a rolling window: it never ends."""
        rolling = self.budget.window is BudgetWindow.ROLLING
        return self.budget.end_time if rolling else window_end(self.budget, self.window_start)

    @property
    def forecast(self) -> "Forecast | None":
        """A straight line through what is posted since the window began, or the budget in it."""
        budget, end, now = self.budget, self.window_end, self.read_time
        begins = (self.window_start, budget.start_time, budget.create_time)
        begin = max(each for each in begins if each is not None)
        if end is None or not begin < now < end or (now - begin) * FORECAST_MIN < end - begin:
            return None
        passed, length = _seconds(now - begin), _seconds(end - begin)
        posted = Money(self.posted * length / passed, budget.hard_limit.currency_code)
        return Forecast(posted.quantized(), self._exhaust_time(begin, end, posted))

    def _exhaust_time(self, begin: datetime, end: datetime, at_end: Money) -> datetime | None:
        """Returns when the line meets the limit, which falls where a raise ends before `end`."""
        raised, limit = self.budget.raised, self.limit
        met = self._met(begin, limit) if at_end > limit else None
        if raised is None or raised.until is None or not self.read_time < raised.until < end:
            return met
        if met is not None and met < raised.until:
            return met
        base = self.budget.hard_limit
        return max(raised.until, self._met(begin, base)) if at_end > base else None

    def _met(self, begin: datetime, limit: Money) -> datetime:
        return begin + (self.read_time - begin) * float(limit.amount / self.posted)


@dataclass(frozen=True, slots=True)
class CountedWindow:
    """The amounts counted in a window of a budget; a rolling one has a window for each minute."""

    start: datetime
    end: datetime | None
    posted: Money
    held: Money
    # At its end, or now.
    hard_limit: Money


# A line through less of the window says nothing.
FORECAST_MIN = 50


@dataclass(frozen=True, slots=True)
class Forecast:
    """The amount posted at the end of a window, and when the hard limit is reached before it."""

    posted: Money
    exhaust_time: datetime | None


def _seconds(length: timedelta) -> Decimal:
    return Decimal(length // timedelta(microseconds=1)) / 1_000_000


def window_end(budget: Budget, start: datetime) -> datetime | None:
    """Returns the start of the next window, or the end of the budget where that is earlier."""
    rolling = budget.window is BudgetWindow.ROLLING
    following = start + timedelta(minutes=1) if rolling else _next_window(budget, start)
    return min((end for end in (following, budget.end_time) if end is not None), default=None)


def _next_window(budget: Budget, start: datetime) -> datetime | None:
    """None for windows without an end of their own."""
    zone = ZoneInfo(budget.time_zone)
    # Midnights of the zone, between which may lie 23 or 25 hours.
    day = start.astimezone(zone).date()
    match budget.window:
        case BudgetWindow.DAY:
            following = day + timedelta(days=1)
        case BudgetWindow.WEEK:
            following = day + timedelta(days=7)
        case BudgetWindow.MONTH:
            following = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        case _:
            return None
    return datetime.combine(following, time(), zone).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class ScopeQuery:
    """Asks for the budgets of one scope as they stand at a time; None means now."""

    tenant: str
    scope: BudgetScope
    scope_id: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class WindowStatus:
    """A budget's window as read under the lock, which new holds are decided against.

    A rolling window is counted from `first` to `start` in buckets of a minute; of a calendar
    window both are the same. `held` is the part of `used` that calls in progress may still give
    back. `row_exists` is set where `start` has a row.
    """

    tenant: str
    budget_id: str
    scope: BudgetScope
    scope_id: str
    limit: Money
    first: datetime
    start: datetime
    used: Decimal
    held: Decimal
    row_exists: bool


@dataclass(frozen=True, slots=True)
class BudgetAlert:
    """A soft limit that was passed. `sequence` counts over all tenants, oldest first.

    `share` is that of `hard_limit` which the soft limit is, or 0 of one that is an amount.
    """

    sequence: int
    tenant: str
    budget_id: str
    window_start: datetime
    soft_limit: Money
    posted: Money
    hard_limit: Money
    create_time: datetime
    publish_time: datetime | None
    share: Decimal

    @property
    def id(self) -> str:
        """One per budget, window and soft limit, for ever: consumers drop what they know."""
        start = self.window_start.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        passed = self.soft_limit.amount_string()
        if self.share:
            passed = f"{(self.share * 100).normalize():f}%"
        return f"{self.tenant}/{self.budget_id}/{start}/{passed}"


class BudgetField(StrEnum):
    HARD_LIMIT = "hard_limit"
    SOFT_LIMITS = "soft_limits"
    END_TIME = "end_time"
    SOFT_LIMIT_SHARES = "soft_limit_shares"


@dataclass(frozen=True, slots=True)
class BudgetChange:
    """New values of the named fields, never of the scope or the window.

    A change names the version it was made from, so that no change undoes another one unseen; a
    repeated one is made once. Version 0 means whichever the budget has.
    """

    tenant: str
    budget_id: str
    version: int
    fields: frozenset[BudgetField]
    hard_limit: Money | None = None
    soft_limits: tuple[Money, ...] = ()
    end_time: datetime | None = None
    soft_limit_shares: tuple[Decimal, ...] = ()

    def __post_init__(self) -> None:
        if not self.fields:
            raise InvalidBudget(
                f"update_mask is unset; name what changes: {', '.join(BudgetField)}"
            )
        if BudgetField.HARD_LIMIT in self.fields and self.hard_limit is None:
            raise InvalidBudget("hard_limit is unset; a budget has one")
        if self.version < 0:
            raise InvalidBudget("version is negative; 0 means whichever it is")

    def applied_to(self, budget: Budget, now: datetime) -> Budget:
        """Returns the changed budget; the same one when nothing changes or the change was made
        before.

        Raises BudgetEnded, BudgetChanged and InvalidBudget.
        """
        budget.check_open(now)
        self._check_currency(budget)
        changed = self._changed(budget)
        made_before = self.version == budget.version - 1 and changed == budget
        if self.version not in (0, budget.version) and not made_before:
            raise BudgetChanged(budget.id, budget.version, self.version)
        if changed == budget:
            return budget
        if BudgetField.END_TIME in self.fields:
            changed.check_end(now)
        return replace(changed, version=budget.version + 1)

    def _changed(self, budget: Budget) -> Budget:
        hard, soft, end, shares = (field in self.fields for field in BudgetField)
        return replace(
            budget,
            hard_limit=self.hard_limit if hard and self.hard_limit else budget.hard_limit,
            soft_limits=self.soft_limits if soft else budget.soft_limits,
            end_time=self.end_time if end else budget.end_time,
            soft_limit_shares=self.soft_limit_shares if shares else budget.soft_limit_shares,
        )

    def _check_currency(self, budget: Budget) -> None:
        currency = budget.hard_limit.currency_code
        for limit in (self.hard_limit, *self.soft_limits):
            if limit and limit.currency_code != currency:
                raise InvalidBudget(
                    f"budget {budget.id} counts {currency}; {limit} is another currency: close it "
                    "and create another one"
                )
