import re
from dataclasses import dataclass
from datetime import UTC, datetime

from cost_ledger.errors import InvalidMonth

# The months beside one are asked for, too, and no calendar holds a year 0 or 10000.
WRITTEN = re.compile(r"(?!9999)([1-9][0-9]{3})-(0[1-9]|1[0-2])")


@dataclass(frozen=True, slots=True, order=True)
class Month:
    year: int
    number: int

    @classmethod
    def parse(cls, text: str) -> "Month":
        match = WRITTEN.fullmatch(text)
        if not match:
            raise InvalidMonth(text)
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def of(cls, moment: datetime) -> "Month":
        utc = moment.astimezone(UTC)
        return cls(utc.year, utc.month)

    @property
    def start(self) -> datetime:
        return datetime(self.year, self.number, 1, tzinfo=UTC)

    @property
    def end(self) -> datetime:
        return self.next().start

    def next(self) -> "Month":
        return self.moved(1)

    def moved(self, months: int) -> "Month":
        count = self.year * 12 + self.number - 1 + months
        return Month(count // 12, count % 12 + 1)

    def __str__(self) -> str:
        return f"{self.year:04d}-{self.number:02d}"
