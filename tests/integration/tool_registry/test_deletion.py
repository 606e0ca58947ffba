import asyncio
from datetime import timedelta
from pathlib import Path

import grpc

from embedded_servers import Database
from integration.tool_registry.builders import make_spec
from integration.tool_registry.running_registry import (
    Caller,
    RunningRegistry,
    rejected,
    running_registry,
)
from integration.tool_registry.test_policies import activate, listed
from podium.registry.v1 import policy_pb2, tool_pb2
from podium.registry.v1 import policy_service_pb2 as pb
from podium.registry.v1 import tool_registry_service_pb2 as tools_pb
from podium_kit.rpc.identity import Scope


async def delete_tool(caller: Caller, name: str, version: int = 0) -> list[int]:
    request = tools_pb.DeleteToolRequest(name=name, version=version)
    return [tool.version for tool in (await caller.tools.DeleteTool(request)).tools]


async def exists(caller: Caller, name: str) -> bool:
    try:
        await caller.get(name, 1)
    except grpc.aio.AioRpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND
        return False
    return True


async def test_a_deleted_tool_is_not_found_and_still_explains_past_episodes(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.register(make_spec(description="Better."))
    assert await delete_tool(ada, "calculator") == [2, 1]
    assert await ada.names(include_deprecated=True) == []
    assert not (await ada.resolve()).toolset.tools
    assert (await rejected(ada.get("calculator"))).code() == grpc.StatusCode.NOT_FOUND
    read = await ada.get("calculator", 1)
    assert read.spec == make_spec() and read.HasField("delete_time")


async def test_deleting_one_version_leaves_the_others(registry: RunningRegistry) -> None:
    ada = registry.as_()
    for text in ("One.", "Two.", "Three."):
        await ada.register(make_spec(description=text))
    assert await delete_tool(ada, "calculator", 3) == [3]
    assert (await ada.get("calculator")).version == 2
    assert (await rejected(delete_tool(ada, "calculator", 3))).code() == grpc.StatusCode.NOT_FOUND


async def test_what_is_registered_again_is_back_under_its_number(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await delete_tool(ada, "calculator")
    assert (await ada.register(make_spec())).tool.version == 1
    assert await ada.names() == ["calculator"]


async def test_only_the_owner_deletes(registry: RunningRegistry) -> None:
    await registry.platform().register(make_spec("weather"), shared=True)
    await registry.as_("acme").register(make_spec("own"))
    denied = await rejected(delete_tool(registry.as_("acme"), "weather"))
    assert denied.code() == grpc.StatusCode.PERMISSION_DENIED
    unseen = await rejected(delete_tool(registry.as_("globex"), "own"))
    assert unseen.code() == grpc.StatusCode.NOT_FOUND
    runner = await rejected(delete_tool(registry.as_("acme", Scope.EPISODES_RUN), "own"))
    assert runner.code() == grpc.StatusCode.PERMISSION_DENIED


async def test_after_its_retention_the_content_is_forgotten_and_the_number_is_not(
    database: Database, tmp_path: Path
) -> None:
    url = await database("tool_registry")
    async with running_registry(url, tmp_path) as registry:
        await registry.as_().register(make_spec())
        await delete_tool(registry.as_(), "calculator")
    async with running_registry(url, tmp_path, later_by=timedelta(days=89)) as registry:
        assert (await registry.as_().get("calculator", 1)).spec == make_spec()
    async with running_registry(url, tmp_path, later_by=timedelta(days=91)) as registry:
        async with asyncio.timeout(20):
            # A registry purges once it has started.
            while await exists(registry.as_(), "calculator"):
                await asyncio.sleep(0.02)
        reply = await registry.as_().register(make_spec(description="Other."))
        assert reply.tool.version == 2
        assert (await registry.as_().register(make_spec())).tool.version == 1


async def delete_policy(caller: Caller, name: str, version: int = 0) -> list[int]:
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
    assert await delete_policy(ada, "mine", 1) == [1]
    assert await delete_policy(ada, "mine") == [2]
    assert "mine" not in await names(ada)
    for call in (ada.resolve("mine"), delete_policy(ada, "mine")):
        assert (await rejected(call)).code() is grpc.StatusCode.NOT_FOUND
    assert (await ada.create_policy()).created


async def test_what_decided_about_an_episode_stays(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.create_policy(instruction="first")
    await ada.resolve("mine")
    await ada.create_policy(instruction="second")
    error = await rejected(delete_policy(ada, "mine"))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "version 1 of policy mine has decided" in str(error.details())
    assert "create a new version" in str(error.details())
    assert await delete_policy(ada, "mine", 2) == [2]
    assert (await ada.resolve("mine")).toolset.policy_version == 1


async def test_what_checked_a_call_stays(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec("read"))
    await ada.create_policy()
    calls = [pb.PlannedCall(tool_name="read", tool_version=1)]
    await ada.policies.CheckCalls(pb.CheckCallsRequest(policy="mine", calls=calls))
    assert "has decided" in str((await rejected(delete_policy(ada, "mine"))).details())


async def test_a_default_of_yesterday_or_tomorrow_stays(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.create_policy()
    await activate(ada, "mine")
    await activate(ada, "balanced")
    assert "the default" in str((await rejected(delete_policy(ada, "mine"))).details())


async def test_a_floor_that_bound_an_episode_stays(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.create_policy("floor")
    assert await delete_policy(ada, "floor") == [1]
    await ada.create_policy("floor", deny=policy_pb2.ToolSelector(names=["rm"]))
    await ada.resolve("cost-first")
    assert "has decided" in str((await rejected(delete_policy(ada, "floor"))).details())


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
    assert "the tool researcher" in str((await rejected(delete_policy(ada, "mine"))).details())
    preset = await rejected(delete_policy(ada, "balanced"))
    assert preset.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "is a preset" in str(preset.details())


async def test_a_strangers_policy_is_not_there_to_be_deleted(registry: RunningRegistry) -> None:
    await registry.as_("acme").create_policy()
    error = await rejected(delete_policy(registry.as_("globex"), "mine"))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert "mine" in await names(registry.as_("acme"))
