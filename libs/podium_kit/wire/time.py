"""Timestamps are aware datetimes in UTC; durations are seconds as float."""

import re
from datetime import UTC, datetime
from decimal import Decimal

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from podium_kit.rpc.errors import InvalidArgument

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECONDS_PER_DAY = 86_400
LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)
UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": SECONDS_PER_DAY}


def timestamp_to_proto(moment: datetime) -> Timestamp:
    since = moment - EPOCH
    # What Timestamp.FromDatetime does, in one step: every entry has two of these.
    return Timestamp(
        seconds=since.days * SECONDS_PER_DAY + since.seconds, nanos=since.microseconds * 1000
    )


def timestamp_from_proto(message: Timestamp) -> datetime:
    """An aware datetime in UTC, to the microsecond. Raises InvalidArgument."""
    try:
        return message.ToDatetime(tzinfo=UTC)
    except ValueError as error:
        raise InvalidArgument(
            f"timestamp of {message.seconds} s and {message.nanos} ns is not in years 1 to 9999"
        ) from error


def duration_to_proto(seconds: float) -> Duration:
    message = Duration()
    message.FromNanoseconds(round(seconds * 1e9))
    return message


def duration_from_proto(message: Duration) -> float:
    return message.ToNanoseconds() / 1e9


def optional_time(message: Message, field: str) -> datetime | None:
    return timestamp_from_proto(getattr(message, field)) if message.HasField(field) else None


def parse_length(text: str) -> Decimal:
    """Seconds of "90", "90s", "5m", "1h" or "7d". Raises ValueError."""
    match = LENGTH.fullmatch(text.strip().lower())
    if not match or match[2] not in UNIT_SECONDS:
        raise ValueError(f"{text!r} is not a length of time")
    return Decimal(match[1]) * UNIT_SECONDS[match[2]]
