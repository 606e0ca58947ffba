"""What a spend report asks for and answers."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from cost_ledger.errors import InvalidReport
from cost_ledger.models import EntryKind
from metering import Quantity
from money import Money

GROUPS_MAX = 3


class SpendDimension(StrEnum):
    """What a report is grouped by."""

    DAY = "day"
    MODEL = "model"
    TOOL = "tool"
    EPISODE = "episode"
    USER = "user"


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """A page of the journal; an empty episode or no kinds means all."""

    episode_id: str
    kinds: tuple[EntryKind, ...]
    after_sequence: int
    limit: int


@dataclass(frozen=True, slots=True)
class Report:
    """Sums over [start_time, end_time), rows from `offset` on."""

    group_by: tuple[SpendDimension, ...]
    start_time: datetime | None
    end_time: datetime
    episode_id: str
    limit: int
    offset: int

    def __post_init__(self) -> None:
        if len(self.group_by) > GROUPS_MAX:
            raise InvalidReport(f"group_by has {len(self.group_by)} dimensions; at most 3")
        if len(set(self.group_by)) != len(self.group_by):
            raise InvalidReport("group_by names a dimension twice")


@dataclass(frozen=True, slots=True)
class SpendRow:
    """Sums of known costs, one per currency, and the calls behind them."""

    values: tuple[str, ...]
    amounts: tuple[Money, ...]
    call_count: int
    unpriced_call_count: int
    quantities: tuple[Quantity, ...]
