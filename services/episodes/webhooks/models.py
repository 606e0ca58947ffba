import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from podium_kit.money import Money


class EventType(StrEnum):
    EPISODE_ENDED = "episode.ended"
    APPROVAL_REQUESTED = "approval.requested"
    RECORD_DEAD_LETTERED = "record.dead_lettered"
    BUDGET_ALERT = "budget.alert"
    FEEDBACK_GIVEN = "feedback.given"
    VERSION_PROMOTED = "version.promoted"


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class StreamedEventType(StrEnum):
    """Events that only the stream of a tenant's events has."""

    EPISODE_STARTED = "episode.started"
    APPROVAL_DECIDED = "approval.decided"


@dataclass(frozen=True)
class Webhook:
    """The receiver of a tenant's events; no event types means all."""

    id: str
    url: str
    event_types: tuple[EventType, ...]
    secret_name: str
    created_by: str
    create_time: datetime | None = None


@dataclass(frozen=True)
class Event:
    tenant: str
    type: EventType | StreamedEventType
    # The same for the same thing, so that a repeated transaction tells it once; without a full
    # stop, which separates the parts of what is signed.
    message_id: str
    data: Mapping[str, Any]

    @property
    def body(self) -> str:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        return json.dumps({"type": self.type.value, "timestamp": now, "data": dict(self.data)})


@dataclass(frozen=True)
class PassedLimit:
    """A soft limit of the ledger that spending has passed."""

    id: str
    budget_id: str
    window_start: datetime
    soft_limit: Money
    posted: Money
    hard_limit: Money
    create_time: datetime
    # Of the hard limit; 0 of a soft limit that is an amount.
    share: float


@dataclass(frozen=True)
class Delivery:
    id: int
    webhook_id: str
    message_id: str
    event_type: EventType
    body: str
    state: DeliveryState
    attempt_count: int
    next_attempt_time: datetime
    last_status_code: int
    last_error: str
    create_time: datetime


@dataclass(frozen=True)
class DueDelivery:
    id: int
    tenant: str
    url: str
    secret_name: str
    message_id: str
    body: str
    attempt_count: int


@dataclass(frozen=True)
class Attempt:
    """The receiver's answer; status 0 and an error where there was none."""

    status_code: int
    error: str
