import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cost_ledger.errors import InvalidPrice

DAYS = 7
MINUTES_PER_DAY = 24 * 60
_TIME_OF_DAY = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00")


@dataclass(frozen=True, slots=True)
class WeeklyHours:
    """Hours of each of the weekdays (0: Monday), from `start_minute` until before `end_minute`."""

    weekdays: frozenset[int]
    start_minute: int
    end_minute: int

    def __post_init__(self) -> None:
        if not self.weekdays or not self.weekdays <= set(range(DAYS)):
            raise InvalidPrice("hours name a weekday that does not exist")
        if not 0 <= self.start_minute < self.end_minute <= MINUTES_PER_DAY:
            raise InvalidPrice(
                f"hours from {time_text(self.start_minute)} until {time_text(self.end_minute)} "
                "are empty; split hours that pass midnight into two components"
            )

    def hold_at(self, at: datetime) -> bool:
        moment = at.astimezone(UTC)
        minute = moment.hour * 60 + moment.minute
        return moment.weekday() in self.weekdays and self.start_minute <= minute < self.end_minute

    def hold_within(self, start: datetime, end: datetime) -> bool:
        """Returns whether any instant from `start` up to `end` is within the hours."""
        first = start.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        days = min((end - first).days, DAYS)
        return any(self._hold_on(first + timedelta(day), start, end) for day in range(days + 1))

    def overlap(self, other: "WeeklyHours") -> bool:
        same_day = bool(self.weekdays & other.weekdays)
        return same_day and max(self.start_minute, other.start_minute) < min(
            self.end_minute, other.end_minute
        )

    def _hold_on(self, midnight: datetime, start: datetime, end: datetime) -> bool:
        opens = midnight + timedelta(minutes=self.start_minute)
        closes = midnight + timedelta(minutes=self.end_minute)
        return midnight.weekday() in self.weekdays and opens <= end and start < closes


def minute_of(text: str) -> int:
    if not _TIME_OF_DAY.fullmatch(text):
        raise InvalidPrice(f"{text[:20]!r} is no time of day; write it like 08:30")
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def time_text(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
