import pytest

from podium.registry.v1 import policy_pb2, tool_pb2
from podium_kit.tool_kinds import ALL
from tool_registry.policies.convert import PRESET_NAMES, RULE_FROM_WIRE
from tool_registry.policies.presets import INSTRUCTIONS, PRESETS


@pytest.mark.parametrize(
    ("wire", "known"),
    [
        (tool_pb2.ToolKind, {kind.number: kind for kind in ALL}),
        (policy_pb2.UnknownPriceRule, RULE_FROM_WIRE),
        (policy_pb2.PolicyPreset, PRESET_NAMES),
    ],
)
def test_every_value_but_unspecified_is_known(wire: object, known: dict[int, object]) -> None:
    assert known.keys() == set(wire.values()) - {0}  # type: ignore[attr-defined]


def test_every_preset_has_weights_and_an_instruction() -> None:
    assert set(PRESET_NAMES.values()) == PRESETS.keys() == INSTRUCTIONS.keys()
