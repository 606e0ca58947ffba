import json

import pytest

from podium.registry.v1 import tool_pb2
from podium_kit.rpc.errors import InvalidArgument
from tool_registry.models import Toolset
from tool_registry.toolsets.client_tools import with_client_tools
from tool_registry.toolsets.convert import ToolsetWriter, client_tools_from_proto
from unit.tool_registry.test_best_tools import make_toolset

SCHEMA = '{"type": "object", "properties": {"city": {"type": "string"}}}'


def offer(*offered: tool_pb2.ClientTool) -> Toolset:
    return with_client_tools(make_toolset("dates", "maths"), client_tools_from_proto(offered))


def test_they_come_last_as_tools_that_their_caller_runs() -> None:
    weather = tool_pb2.ClientTool(
        name="getWeather", description="weather now", parameters_json_schema=SCHEMA
    )
    plain = tool_pb2.ClientTool(name="a-clock")
    found = ToolsetWriter().reply(offer(weather, plain)).toolset
    assert [tool.name for tool in found.tools] == ["dates", "maths", "getWeather", "a-clock"]
    ours, clock = found.tools[2:]
    assert ours.kind == clock.kind == tool_pb2.TOOL_KIND_CLIENT
    assert (ours.description, ours.parameters_json_schema) == ("weather now", SCHEMA)
    assert clock.parameters_json_schema.startswith('{"type": "object"')
    without = ToolsetWriter().reply(make_toolset("dates", "maths")).toolset
    assert found.digest != without.digest


def test_one_hides_a_registered_tool_of_its_name() -> None:
    found = ToolsetWriter().reply(offer(tool_pb2.ClientTool(name="dates"))).toolset
    assert [tool.name for tool in found.tools] == ["maths", "dates"]
    assert found.tools[1].kind == tool_pb2.TOOL_KIND_CLIENT


@pytest.mark.parametrize(
    ("offered", "problem"),
    [
        ([{"name": "find_tools"}], "the platform's own tool is named find_tools"),
        ([{"name": "a"}, {"name": "a"}], "client_tools names a twice"),
        (
            [{"name": "a"}, {"name": "b", "parameters_json_schema": '{"type": "array"}'}],
            r"client_tools\[1\].parameters_json_schema at \$.type: the root must be an object",
        ),
    ],
)
def test_what_cannot_be_called_is_rejected(offered: list[dict[str, str]], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        offer(*(tool_pb2.ClientTool(**tool) for tool in offered))


def test_the_schemas_of_a_callers_tools_have_a_bound_together() -> None:
    wide = {f"argument_{at}": {"type": "string"} for at in range(1000)}
    schema = json.dumps({"type": "object", "properties": wide})
    offered = [
        tool_pb2.ClientTool(name=f"t{at}", description="d", parameters_json_schema=schema)
        for at in range(128)
    ]
    with pytest.raises(InvalidArgument, match=r"client_tools: .*written out.*offer fewer"):
        with_client_tools(make_toolset("dates"), client_tools_from_proto(offered))
