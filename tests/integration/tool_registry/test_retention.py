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
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_kit.rpc.identity import Scope


async def delete(caller: Caller, name: str, version: int = 0) -> list[int]:
    request = pb.DeleteToolRequest(name=name, version=version)
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
    assert await delete(ada, "calculator") == [2, 1]
    assert await ada.names(include_deprecated=True) == []
    assert not (await ada.resolve()).toolset.tools
    assert (await rejected(ada.get("calculator"))).code() == grpc.StatusCode.NOT_FOUND
    read = await ada.get("calculator", 1)
    assert read.spec == make_spec() and read.HasField("delete_time")


async def test_deleting_one_version_leaves_the_others(registry: RunningRegistry) -> None:
    ada = registry.as_()
    for text in ("One.", "Two.", "Three."):
        await ada.register(make_spec(description=text))
    assert await delete(ada, "calculator", 3) == [3]
    assert (await ada.get("calculator")).version == 2
    assert (await rejected(delete(ada, "calculator", 3))).code() == grpc.StatusCode.NOT_FOUND


async def test_what_is_registered_again_is_back_under_its_number(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await delete(ada, "calculator")
    assert (await ada.register(make_spec())).tool.version == 1
    assert await ada.names() == ["calculator"]


async def test_only_the_owner_deletes(registry: RunningRegistry) -> None:
    await registry.platform().register(make_spec("weather"), shared=True)
    await registry.as_("acme").register(make_spec("own"))
    denied = await rejected(delete(registry.as_("acme"), "weather"))
    assert denied.code() == grpc.StatusCode.PERMISSION_DENIED
    unseen = await rejected(delete(registry.as_("globex"), "own"))
    assert unseen.code() == grpc.StatusCode.NOT_FOUND
    runner = await rejected(delete(registry.as_("acme", Scope.EPISODES_RUN), "own"))
    assert runner.code() == grpc.StatusCode.PERMISSION_DENIED


async def test_after_its_retention_the_content_is_forgotten_and_the_number_is_not(
    database: Database, tmp_path: Path
) -> None:
    url = await database("tool_registry")
    async with running_registry(url, tmp_path) as registry:
        await registry.as_().register(make_spec())
        await delete(registry.as_(), "calculator")
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
