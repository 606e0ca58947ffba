"""The common messages of the contract as domain values, and back."""

from wire.failure import failure_from_proto, failure_to_proto
from wire.money import money_from_proto, money_to_proto, optional_money_from_proto
from wire.time import (
    duration_from_proto,
    duration_to_proto,
    timestamp_from_proto,
    timestamp_to_proto,
)
from wire.usage import (
    quantities_from_proto,
    quantities_to_proto,
    usage_from_proto,
    usage_to_proto,
)

__all__ = [
    "duration_from_proto",
    "duration_to_proto",
    "failure_from_proto",
    "failure_to_proto",
    "money_from_proto",
    "money_to_proto",
    "optional_money_from_proto",
    "quantities_from_proto",
    "quantities_to_proto",
    "timestamp_from_proto",
    "timestamp_to_proto",
    "usage_from_proto",
    "usage_to_proto",
]
