from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from podium_kit.rpc.bounds import OutOfBounds

STORED_FOR = timedelta(hours=1)


@dataclass(frozen=True)
class EventPosition:
    """A place between events: all up to it were seen at a time."""

    transaction_id: int
    id: int
    seen_time: datetime

    def __str__(self) -> str:
        return f"{self.transaction_id}-{self.id}-{int(self.seen_time.timestamp())}"

    @classmethod
    def of(cls, text: str) -> "EventPosition":
        """Reads what the bounds of the contract let through. Raises OutOfBounds."""
        transaction_id, id, seen_s = (int(part) for part in text.split("-"))
        try:
            return cls(transaction_id, id, datetime.fromtimestamp(seen_s, UTC))
        except (OverflowError, ValueError) as error:
            raise OutOfBounds("after", "is no position of an event") from error

    def is_stored(self, newest: "EventPosition") -> bool:
        """Returns whether no event since may be deleted; false also before a restored backup."""
        recent = self.seen_time > newest.seen_time - STORED_FOR
        return recent and self.transaction_id <= newest.transaction_id


@dataclass(frozen=True)
class StreamedEvent:
    """An event as it is stored; of no type is a sign of life."""

    position: EventPosition
    type: str
    body: str
    time: datetime
    events_missed: bool = False


OPENED, HEARTBEAT = "opened", "heartbeat"
