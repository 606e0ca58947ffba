import json
from datetime import UTC, datetime
from typing import Any

import pytest

from podium.registry.v1 import policy_pb2, tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_kit.rpc.errors import InvalidArgument
from tool_registry.models import (
    PolicyVersion,
    ResolvedTool,
    ToolAccess,
    Toolset,
    ToolVersion,
)
from tool_registry.policies.convert import stored_policy
from tool_registry.tools.convert import stored_spec
from tool_registry.toolsets.best_tools import best_of
from tool_registry.toolsets.convert import (
    ToolsetWriter,
    client_tools_from_proto,
    fitting_from_proto,
)
from tool_registry.toolsets.views import with_client_tools

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("answer", "code", "dates", "maths", "model", "music", "units")
KINDS = {"code": tool_pb2.TOOL_KIND_CODE, "model": tool_pb2.TOOL_KIND_LLM}


def make_version(name: str) -> ToolVersion:
    spec = tool_pb2.ToolSpec(name=name, kind=KINDS.get(name, tool_pb2.TOOL_KIND_FUNCTION))
    spec.gives_answer = name == "answer"
    if name == "model":
        spec.connection.llm.role = tool_pb2.LLM_ROLE_GENERALIST
    return ToolVersion("acme", 1, stored_spec(spec.SerializeToString()), "", NOW, "ada")


VERSIONS = {name: make_version(name) for name in NAMES}


def make_toolset(*names: str, deny: frozenset[str] = frozenset()) -> Toolset:
    tools = tuple(
        ResolvedTool(VERSIONS[name], "", "", (), "{}", (), 0.0, False, None) for name in names
    )
    written = policy_pb2.PolicySpec(name="mine", deny=policy_pb2.ToolSelector(names=sorted(deny)))
    policy = stored_policy(written.SerializeToString())
    decisions = tuple(ToolAccess(name, name in names, "") for name in NAMES)
    return Toolset(tools, PolicyVersion(1, policy, "", NOW, ""), decisions)


def best(toolset: Toolset, ranked: str, places: int, known: frozenset[str] = frozenset()) -> str:
    order = [VERSIONS[name] for name in ranked.split()]
    found = best_of(toolset, order, places, known)
    names = [tool.version.spec.name for tool in found.tools]
    assert found is toolset or {one.name for one in found.decisions} == set(names)
    return " ".join([*names, *(["find_tools"] if found.finder else [])])


def test_the_best_are_kept_in_name_order_and_the_others_can_be_found() -> None:
    toolset = make_toolset("dates", "maths", "music", "units")
    assert best(toolset, "units music maths dates", 2) == "music units find_tools"


def test_a_toolset_that_has_room_stays_as_it_is() -> None:
    toolset = make_toolset("dates", "maths")
    assert best(toolset, "maths dates", 2) == "dates maths"


def test_what_the_policy_keeps_out_is_not_kept_however_well_it_fits() -> None:
    toolset = make_toolset("dates", "maths", "music")
    assert best(toolset, "units music maths dates", 1) == "music find_tools"


def test_of_four_places_one_is_for_a_tool_that_fits_everything() -> None:
    toolset = make_toolset(*NAMES)
    ranked = "dates maths music units code model"
    assert best(toolset, ranked, 4) == "code dates maths music find_tools"
    ranked_second = "dates code maths music units model"
    assert best(toolset, ranked_second, 4) == "code dates maths music find_tools"
    assert best(toolset, ranked, 3) == "dates maths music find_tools"


def test_a_tool_that_gives_the_answer_has_a_place_where_general_ones_have() -> None:
    toolset = make_toolset(*NAMES)
    ranked = "dates maths music units code model answer"
    assert best(toolset, ranked, 4) == "answer code dates maths find_tools"
    assert best(toolset, ranked, 3) == "dates maths music find_tools"


def test_known_tools_are_not_found_again() -> None:
    toolset = make_toolset("dates", "maths", "music")
    known = frozenset({"dates", "find_tools"})
    assert best(toolset, "dates maths music units", 4, known) == "maths music"
    assert best(toolset, "dates", 4, known) == ""


def test_a_policy_may_deny_finding() -> None:
    toolset = make_toolset("dates", "maths", deny=frozenset({"find_tools"}))
    assert best(toolset, "dates maths", 1) == "dates"


def test_find_tools_is_offered_as_a_free_tool_of_its_own_kind() -> None:
    toolset = best_of(make_toolset("dates", "maths"), VERSIONS.values(), 1, frozenset())
    reply = ToolsetWriter().reply(toolset)
    assert [tool.name for tool in reply.toolset.tools] == ["dates", "find_tools"]
    assert reply.toolset.tools[-1].kind == tool_pb2.TOOL_KIND_FIND_TOOLS


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (pb.ResolveToolsetRequest(task="sum", tools_max=-1), "tools_max is -1"),
        (pb.ResolveToolsetRequest(task="sum", tools_max=1, tool_names=["maths"]), "not both"),
        (pb.ResolveToolsetRequest(task=" ", tools_max=1), "task is empty"),
    ],
)
def test_what_cannot_be_ranked_is_rejected(
    request_: pb.ResolveToolsetRequest, problem: str
) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        fitting_from_proto(request_)


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
def test_what_cannot_be_called_is_rejected(offered: list[dict[str, Any]], problem: str) -> None:
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
