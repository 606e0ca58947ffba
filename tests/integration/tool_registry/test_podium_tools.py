"""Tools of kind podium: what is rejected, and how an episode gets one."""

import json

from integration.tool_registry.builders import make_podium_spec
from integration.tool_registry.running_registry import RunningRegistry, rejected
from podium.registry.v1 import policy_pb2, tool_pb2

REJECT = policy_pb2.UNKNOWN_PRICE_RULE_REJECT


async def test_an_orchestrator_has_no_price_of_its_own_and_is_not_unpriced(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_podium_spec(max_depth=3, policy="frugal", tool_names=["search"]))
    await ada.create_policy(unknown_price=REJECT)
    [tool] = (await ada.resolve("mine")).toolset.tools
    assert tool.terms.startswith("priced by what it calls,")
    assert (tool.podium.model, tool.podium.policy, tool.podium.max_depth) == ("small", "frugal", 3)
    assert list(tool.podium.tool_names) == ["search"]


async def test_a_policy_keeps_orchestrators_out_by_kind(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_podium_spec())
    denied = policy_pb2.ToolSelector(kinds=[tool_pb2.TOOL_KIND_PODIUM])
    await ada.create_policy(deny=denied)
    assert not (await ada.resolve("mine")).toolset.tools


async def test_what_could_not_be_called_is_rejected_at_registration(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    priced, taskless, untyped = make_podium_spec(), make_podium_spec(), make_podium_spec()
    priced.sku = "tool/researcher"
    taskless.parameters_json_schema = json.dumps({"type": "object", "properties": {}})
    untyped.parameters_json_schema = json.dumps(
        {"type": "object", "properties": {"task": {"type": "integer"}}, "required": ["task"]}
    )
    for spec, why in (
        (make_podium_spec(max_depth=1), "give 2 or more"),
        (make_podium_spec(max_depth=9), "give 0 to 8"),
        (priced, "has its own prices"),
        (taskless, "make it a required string"),
        (untyped, "make it a required string"),
    ):
        assert why in str((await rejected(ada.register(spec))).details())
