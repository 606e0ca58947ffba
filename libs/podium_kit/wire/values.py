"""The common messages of the contract as domain values, and back.

Timestamps are aware datetimes in UTC; durations are seconds as float.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from podium.common.v1 import attachment_pb2 as pb
from podium.common.v1 import failure_pb2, money_pb2, usage_pb2
from podium_kit.attachments import AttachedFile, Attachment, MediaKind
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.metering import Dimension, InvalidUsage, Quantity, Usage, UsageSource
from podium_kit.money import Money
from podium_kit.rpc.errors import InvalidArgument


def money_to_proto(money: Money) -> money_pb2.Money:
    return money_pb2.Money(currency_code=money.currency_code, amount=money.amount_string())


def money_from_proto(message: money_pb2.Money) -> Money:
    """The value. Raises InvalidMoney, also when the message is unset."""
    return Money.parse(message.amount, message.currency_code)


def optional_money_from_proto(message: money_pb2.Money) -> Money | None:
    """The value, or None when the message is unset: unknown, not zero."""
    if not message.amount and not message.currency_code:
        return None
    return money_from_proto(message)


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


_DIMENSION_PREFIX = "USAGE_DIMENSION_"
_SOURCE_PREFIX = "USAGE_SOURCE_"
# No exponent: nine characters could otherwise stand for a number of a gigabyte.
_AMOUNT = re.compile(r"[0-9]{1,16}(\.[0-9]{1,40})?")
_DIMENSION_TO_WIRE = {
    dimension: usage_pb2.UsageDimension.Value(_DIMENSION_PREFIX + dimension.name)
    for dimension in Dimension
}
_DIMENSION_FROM_WIRE: dict[int, Dimension] = {
    number: dimension for dimension, number in _DIMENSION_TO_WIRE.items()
}
_SOURCE_TO_WIRE = {
    source: usage_pb2.UsageSource.Value(_SOURCE_PREFIX + source.name) for source in UsageSource
}
_SOURCE_FROM_WIRE = {number: source for source, number in _SOURCE_TO_WIRE.items()}


def quantities_to_proto(quantities: Iterable[Quantity]) -> list[usage_pb2.Quantity]:
    return [
        usage_pb2.Quantity(
            dimension=_DIMENSION_TO_WIRE[entry.dimension], amount=f"{entry.amount.copy_abs():f}"
        )
        for entry in quantities
    ]


def quantities_from_proto(messages: Iterable[usage_pb2.Quantity]) -> tuple[Quantity, ...]:
    return tuple(_quantity_from_proto(message) for message in messages)


def dimension_from_proto(number: int) -> Dimension:
    # Unset is rejected: priced as some default dimension it would be a wrong bill.
    if number not in _DIMENSION_FROM_WIRE:
        raise InvalidUsage("dimension is unset; name what is counted")
    return _DIMENSION_FROM_WIRE[number]


def dimension_to_proto(dimension: Dimension) -> usage_pb2.UsageDimension.ValueType:
    return _DIMENSION_TO_WIRE[dimension]


def _quantity_from_proto(message: usage_pb2.Quantity) -> Quantity:
    dimension = dimension_from_proto(message.dimension)
    if not _AMOUNT.fullmatch(message.amount):
        shown = message.amount[:40]
        raise InvalidUsage(f"quantity.amount {shown!r} is not a decimal like 1532 or 0.25")
    return Quantity(dimension, Decimal(message.amount))


def usage_to_proto(usage: Usage) -> usage_pb2.Usage:
    return usage_pb2.Usage(
        quantities=quantities_to_proto(usage.quantities),
        source=_SOURCE_TO_WIRE[usage.source],
        provider_request_id=usage.provider_request_id,
        unusable_reason=usage.unusable_reason,
        service_class=usage.service_class,
    )


def usage_from_proto(message: usage_pb2.Usage) -> Usage:
    if message.source not in _SOURCE_FROM_WIRE:
        raise InvalidUsage("usage.source is unset; say who counted")
    return Usage(
        quantities_from_proto(message.quantities),
        _SOURCE_FROM_WIRE[message.source],
        message.provider_request_id,
        message.unusable_reason,
        message.service_class,
    )


_FAILURE_TO_WIRE = {
    kind: failure_pb2.FailureKind.Value(f"FAILURE_KIND_{kind.name}") for kind in FailureKind
}
_FAILURE_FROM_WIRE = {number: kind for kind, number in _FAILURE_TO_WIRE.items()}


def failure_to_proto(failure: ToolFailure) -> failure_pb2.Failure:
    message = failure_pb2.Failure(
        kind=_FAILURE_TO_WIRE[failure.kind], message=failure.message, retryable=failure.retryable
    )
    if failure.retry_after_s is not None:
        message.retry_after.CopyFrom(duration_to_proto(failure.retry_after_s))
    return message


def failure_from_proto(message: failure_pb2.Failure) -> ToolFailure:
    if message.kind not in _FAILURE_FROM_WIRE:
        raise InvalidArgument("failure.kind is unset")
    return ToolFailure(
        _FAILURE_FROM_WIRE[message.kind],
        message.message,
        message.retryable,
        duration_from_proto(message.retry_after) if message.HasField("retry_after") else None,
    )


KIND_TO_WIRE = {kind: pb.MediaKind.Value(f"MEDIA_KIND_{kind.name}") for kind in MediaKind}
KIND_FROM_WIRE: dict[int, MediaKind] = {number: kind for kind, number in KIND_TO_WIRE.items()}


def attachment_to_proto(attachment: Attachment) -> pb.Attachment:
    return pb.Attachment(
        placeholder=attachment.placeholder,
        media_type=attachment.media_type,
        digest=attachment.digest,
        size_bytes=attachment.size_bytes,
        name=attachment.name,
    )


def attachment_from_proto(message: pb.Attachment) -> Attachment:
    return Attachment(
        message.placeholder, message.media_type, message.digest, message.size_bytes, message.name
    )


def file_to_proto(file: AttachedFile) -> pb.AttachedFile:
    attachment = attachment_to_proto(file.attachment)
    return pb.AttachedFile(attachment=attachment, data=file.data, tokens=file.attachment.tokens)


def file_from_proto(message: pb.AttachedFile) -> AttachedFile:
    attachment = replace(attachment_from_proto(message.attachment), tokens=message.tokens)
    return AttachedFile(attachment, message.data)


def digest_of(message: Message) -> str:
    """Hexadecimal SHA-256 over everything in a message but its field `digest`."""
    rest = type(message)()
    rest.CopyFrom(message)
    rest.ClearField("digest")
    return hashlib.sha256(rest.SerializeToString(deterministic=True)).hexdigest()
