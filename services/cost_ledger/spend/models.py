from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

from cost_ledger.errors import InvalidReport
from cost_ledger.models import EntryKind
from podium_kit.metering import Dimension

DAY = timedelta(days=1)
# A report that starts within a day asks for the one after it.
LAST_DAY = datetime(9999, 12, 31, tzinfo=UTC)
# Calls that an entry of a kind adds to a sum: a correction is the opposite of a whole line,
# so it takes its call and its quantities away; an adjustment changes an amount alone.
CALLS_OF = {
    EntryKind.CAPTURE: 1,
    EntryKind.RECORD: 1,
    EntryKind.SETTLE: -1,
    EntryKind.ADJUST: 0,
}


class SpendDimension(StrEnum):
    DAY = "day"
    MODEL = "model"
    TOOL = "tool"
    EPISODE = "episode"
    USER = "user"
    TEAM = "team"
    PRICE_VERSION = "price_version"
    TENANT = "tenant"
    HOUR = "hour"
    WEEK = "week"


# What the daily sums know.
SUMMED = frozenset(
    {
        SpendDimension.DAY,
        SpendDimension.WEEK,
        SpendDimension.MODEL,
        SpendDimension.TOOL,
        SpendDimension.PRICE_VERSION,
    }
)


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """A page of the journal; an empty episode or no kinds means all.

    With `unpriced` only the costs that are still unknown.
    """

    episode_id: str
    kinds: tuple[EntryKind, ...]
    unpriced: bool
    after_sequence: int
    limit: int


@dataclass(frozen=True, slots=True)
class SpendReport:
    """Sums over [start_time, end_time), None without a bound, rows from `offset` on."""

    group_by: tuple[SpendDimension, ...]
    start_time: datetime | None
    end_time: datetime | None
    episode_id: str
    limit: int
    offset: int
    all_tenants: bool = False

    def __post_init__(self) -> None:
        if len(set(self.group_by)) != len(self.group_by):
            raise InvalidReport("group_by names a dimension twice")
        if self.start_time and self.end_time and self.end_time < self.start_time:
            raise InvalidReport("end_time is before start_time")
        if self.start_time and self.start_time > LAST_DAY:
            raise InvalidReport(f"start_time is after {LAST_DAY:%Y-%m-%d}T00:00:00Z; start earlier")
        if self.all_tenants:
            self._check_platform()
        elif SpendDimension.TENANT in self.group_by:
            raise InvalidReport("only a report over all tenants is grouped by tenant")

    @property
    def from_sums(self) -> bool:
        return not self.episode_id and SUMMED.issuperset(self.group_by)

    @property
    def first_day(self) -> date | None:
        """The first UTC day that is in the report as a whole; None: since ever."""
        if self.start_time is None:
            return None
        day = self.start_time.astimezone(UTC)
        whole = day == _midnight(day)
        return day.date() if whole else (day + DAY).date()

    @property
    def end_day(self) -> date | None:
        """The first UTC day after those; None: for ever. May be before the first one."""
        return None if self.end_time is None else self.end_time.astimezone(UTC).date()

    def _check_platform(self) -> None:
        known = SUMMED - {SpendDimension.WEEK} | {SpendDimension.TENANT}
        if self.episode_id or not known.issuperset(self.group_by):
            raise InvalidReport(
                "a report over all tenants is by tenant, day, model, tool or price version"
            )
        for bound in (self.start_time, self.end_time):
            if bound and bound != _midnight(bound.astimezone(UTC)):
                raise InvalidReport("a report over all tenants is of whole UTC days")


@dataclass(frozen=True, slots=True)
class SpendRow:
    """Sums of known costs, one per currency, and the calls behind them.

    Amounts are decimals as the database wrote them: nothing is computed with them, and a page has
    thousands.
    """

    values: Sequence[str]
    amounts: Mapping[str, str]
    """Amounts by currency, without trailing zeros."""
    call_count: int
    unpriced_call_count: int
    quantities: Mapping[Dimension, str]
    """Without those that are zero."""


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
