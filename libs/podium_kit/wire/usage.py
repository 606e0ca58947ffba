import re
from collections.abc import Iterable
from decimal import Decimal

from podium.common.v1 import usage_pb2
from podium_kit.metering import Dimension, InvalidUsage, Quantity, Usage, UsageSource

_DIMENSION_PREFIX = "USAGE_DIMENSION_"
_SOURCE_PREFIX = "USAGE_SOURCE_"
# No exponent: nine characters could otherwise stand for a number of a gigabyte.
_AMOUNT = re.compile(r"[0-9]{1,16}(\.[0-9]{1,40})?")
_TO_WIRE = {
    dimension: usage_pb2.UsageDimension.Value(_DIMENSION_PREFIX + dimension.name)
    for dimension in Dimension
}
_FROM_WIRE: dict[int, Dimension] = {number: dimension for dimension, number in _TO_WIRE.items()}
_SOURCE_TO_WIRE = {
    source: usage_pb2.UsageSource.Value(_SOURCE_PREFIX + source.name) for source in UsageSource
}
_SOURCE_FROM_WIRE = {number: source for source, number in _SOURCE_TO_WIRE.items()}


def quantities_to_proto(quantities: Iterable[Quantity]) -> list[usage_pb2.Quantity]:
    return [
        usage_pb2.Quantity(
            dimension=_TO_WIRE[entry.dimension], amount=f"{entry.amount.copy_abs():f}"
        )
        for entry in quantities
    ]


def quantities_from_proto(messages: Iterable[usage_pb2.Quantity]) -> tuple[Quantity, ...]:
    return tuple(_quantity_from_proto(message) for message in messages)


def dimension_from_proto(number: int) -> Dimension:
    # Unset is rejected: priced as some default dimension it would be a wrong bill.
    if number not in _FROM_WIRE:
        raise InvalidUsage("dimension is unset; name what is counted")
    return _FROM_WIRE[number]


def dimension_to_proto(dimension: Dimension) -> usage_pb2.UsageDimension.ValueType:
    return _TO_WIRE[dimension]


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
