"""Domain and wire name the same values, one to one; unset is never one of them."""

from enum import StrEnum

import pytest
from google.protobuf.descriptor import EnumDescriptor

from podium.common.v1 import failure_pb2, usage_pb2
from podium_kit.failures import FailureKind
from podium_kit.metering import Dimension, UsageSource

PAIRS: list[tuple[type[StrEnum], EnumDescriptor, str]] = [
    (Dimension, usage_pb2.UsageDimension.DESCRIPTOR, "USAGE_DIMENSION_"),
    (UsageSource, usage_pb2.UsageSource.DESCRIPTOR, "USAGE_SOURCE_"),
    (FailureKind, failure_pb2.FailureKind.DESCRIPTOR, "FAILURE_KIND_"),
]


@pytest.mark.parametrize(("domain", "wire_enum", "prefix"), PAIRS)
def test_every_wire_value_but_unspecified_has_a_domain_value(
    domain: type[StrEnum], wire_enum: EnumDescriptor, prefix: str
) -> None:
    names = {value.name.removeprefix(prefix) for value in wire_enum.values}
    assert names - {"UNSPECIFIED"} == {member.name for member in domain}
    assert wire_enum.values_by_number[0].name == prefix + "UNSPECIFIED"


@pytest.mark.parametrize(("domain", "_wire_enum", "_prefix"), PAIRS)
def test_domain_value_is_the_name_in_lower_case(
    domain: type[StrEnum], _wire_enum: EnumDescriptor, _prefix: str
) -> None:
    assert all(member.value == member.name.lower() for member in domain)
