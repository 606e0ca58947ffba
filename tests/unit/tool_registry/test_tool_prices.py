import pytest

from podium.registry.v1 import tool_pb2
from podium_kit.tool_kinds.errors import InvalidTool
from tool_registry.tools.checks import check_tool
from tool_registry.tools.convert import new_spec_from_proto


def make_tool(sku: str) -> tool_pb2.ToolSpec:
    return tool_pb2.ToolSpec(
        name="translate",
        description="Translates.",
        kind=tool_pb2.TOOL_KIND_FUNCTION,
        connection=tool_pb2.Connection(function=tool_pb2.FunctionConnection(function="f")),
        parameters_json_schema='{"type": "object"}',
        side_effect=tool_pb2.SIDE_EFFECT_PURE,
        sku=sku,
    )


def test_a_shared_tool_has_no_sku_that_tenants_price() -> None:
    with pytest.raises(InvalidTool, match=r"own/translate .* without 'own/', like tool/translate"):
        check_tool(new_spec_from_proto(make_tool("own/translate")), shared=True)
    check_tool(new_spec_from_proto(make_tool("tool/translate")), shared=True)


def test_a_tenants_tool_may_have_either() -> None:
    for sku in ("own/translate", "tool/translate"):
        check_tool(new_spec_from_proto(make_tool(sku)), shared=False)
