"""Every choice of the contract has a meaning in the adapters."""

from podium.registry.v1 import tool_pb2
from tool_adapters.convert_tools import KINDS, LLM_APIS, PLACES, SIDE_EFFECTS

UNSPECIFIED = 0
# The episode worker answers these, or has their caller answer them.
ELSEWHERE = {tool_pb2.TOOL_KIND_FIND_TOOLS, tool_pb2.TOOL_KIND_CLIENT}


def test_every_kind_of_tool_is_known() -> None:
    assert KINDS.keys() == set(tool_pb2.ToolKind.values()) - {UNSPECIFIED} - ELSEWHERE


def test_every_side_effect_is_known() -> None:
    assert SIDE_EFFECTS.keys() == set(tool_pb2.SideEffect.values()) - {UNSPECIFIED}


def test_every_place_of_an_argument_is_known() -> None:
    assert PLACES.keys() == set(tool_pb2.ParameterLocation.values()) - {UNSPECIFIED}


def test_every_api_of_language_models_is_spoken() -> None:
    assert LLM_APIS.keys() == set(tool_pb2.LlmApi.values()) - {UNSPECIFIED}
