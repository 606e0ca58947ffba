"""Times that a message may leave unset."""

from datetime import datetime

from google.protobuf.message import Message

from podium_kit.wire import timestamp_from_proto


def optional_time(message: Message, field: str) -> datetime | None:
    """The time in a field; None when it is unset."""
    return timestamp_from_proto(getattr(message, field)) if message.HasField(field) else None
