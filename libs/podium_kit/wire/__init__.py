from podium_kit.wire.digest import digest_of
from podium_kit.wire.enums import enum_word
from podium_kit.wire.failure import failure_from_proto, failure_to_proto
from podium_kit.wire.json_values import json_values
from podium_kit.wire.money import money_from_proto, money_to_proto, optional_money_from_proto
from podium_kit.wire.time import (
    duration_from_proto,
    duration_to_proto,
    optional_time,
    timestamp_from_proto,
    timestamp_to_proto,
)
from podium_kit.wire.usage import (
    quantities_from_proto,
    quantities_to_proto,
    usage_from_proto,
    usage_to_proto,
)
from podium_kit.wire.written_messages import InvalidField, enum_name, enum_words, merge_written

__all__ = [
    "InvalidField",
    "digest_of",
    "duration_from_proto",
    "duration_to_proto",
    "enum_name",
    "enum_word",
    "enum_words",
    "failure_from_proto",
    "failure_to_proto",
    "json_values",
    "merge_written",
    "money_from_proto",
    "money_to_proto",
    "optional_money_from_proto",
    "optional_time",
    "quantities_from_proto",
    "quantities_to_proto",
    "timestamp_from_proto",
    "timestamp_to_proto",
    "usage_from_proto",
    "usage_to_proto",
]
