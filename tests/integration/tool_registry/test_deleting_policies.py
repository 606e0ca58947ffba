import grpc

from integration.tool_registry.builders import make_spec
from integration.tool_registry.running_registry import Caller, RunningRegistry, rejected
from integration.tool_registry.test_policies import activate, listed
from podium.registry.v1 import policy_pb2, tool_pb2
from podium.registry.v1 import policy_service_pb2 as pb


async def delete(caller: Caller, name: str, version: int = 0) -> list[int]:
    request = pb.DeletePolicyRequest(name=name, version=version)
    reply = await caller.policies.DeletePolicy(request)
    return [policy.version for policy in reply.policies]


async def names(caller: Caller) -> set[str]:
    return {policy.spec.name for policy in await listed(caller)}


async def test_what_nothing_used_goes_and_its_name_is_free(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.create_policy(instruction="first")
    await ada.create_policy(instruction="second")
    # Looking at it is no use of it.
    await ada.policies.ExplainToolset(pb.ExplainToolsetRequest(policy="mine"))
    await ada.policies.GetPolicy(pb.GetPolicyRequest(name="mine"))
    assert await delete(ada, "mine", 1) == [1]
    assert await delete(ada, "mine") == [2]
    assert "mine" not in await names(ada)
    for call in (ada.resolve("mine"), delete(ada, "mine")):
        assert (await rejected(call)).code() is grpc.StatusCode.NOT_FOUND
    assert (await ada.create_policy()).created


async def test_what_decided_about_an_episode_stays(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.create_policy(instruction="first")
    await ada.resolve("mine")
    await ada.create_policy(instruction="second")
    error = await rejected(delete(ada, "mine"))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "version 1 of policy mine has decided" in str(error.details())
    assert "create a new version" in str(error.details())
    assert await delete(ada, "mine", 2) == [2]
    assert (await ada.resolve("mine")).toolset.policy_version == 1


async def test_what_checked_a_call_stays(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec("read"))
    await ada.create_policy()
    calls = [pb.PlannedCall(tool_name="read", tool_version=1)]
    await ada.policies.CheckCalls(pb.CheckCallsRequest(policy="mine", calls=calls))
    assert "has decided" in str((await rejected(delete(ada, "mine"))).details())


async def test_a_default_of_yesterday_or_tomorrow_stays(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.create_policy()
    await activate(ada, "mine")
    await activate(ada, "balanced")
    assert "the default" in str((await rejected(delete(ada, "mine"))).details())


async def test_a_floor_that_bound_an_episode_stays(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.create_policy("floor")
    assert await delete(ada, "floor") == [1]
    await ada.create_policy("floor", deny=policy_pb2.ToolSelector(names=["rm"]))
    await ada.resolve("cost-first")
    assert "has decided" in str((await rejected(delete(ada, "floor"))).details())


async def test_what_a_tool_names_and_presets_stay(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.create_policy()
    spec = make_spec(
        "researcher",
        {"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]},
        kind=tool_pb2.TOOL_KIND_PODIUM,
        connection=tool_pb2.Connection(podium=tool_pb2.PodiumConnection(policy="mine")),
        sku="",
    )
    await ada.register(spec)
    assert "the tool researcher" in str((await rejected(delete(ada, "mine"))).details())
    preset = await rejected(delete(ada, "balanced"))
    assert preset.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "is a preset" in str(preset.details())


async def test_a_strangers_policy_is_not_there_to_be_deleted(registry: RunningRegistry) -> None:
    await registry.as_("acme").create_policy()
    error = await rejected(delete(registry.as_("globex"), "mine"))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert "mine" in await names(registry.as_("acme"))
