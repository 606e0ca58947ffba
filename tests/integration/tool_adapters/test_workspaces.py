import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from callers import client_channel, make_identity, make_key_pair
from embedded_servers import Database
from integration.misbehaviour.database_wire import database_wire
from integration.misbehaviour.faults import Fault
from integration.podium_operations.test_backups import connected, rows
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    RegistryOf,
    adapters_process,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.tool_specs import ANY_OBJECT, tool_limits, tool_spec
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.adapters.v1.tool_adapter_service_pb2_grpc import ToolAdapterServiceStub
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2
from podium_kit.embedded.ports import free_port

MIB = 1024 * 1024
PYTHON = tool_spec(
    "python",
    "CODE",
    ANY_OBJECT,
    connection=tool_pb2.Connection(code=tool_pb2.CodeConnection(stateful=True)),
    side_effect=tool_pb2.SIDE_EFFECT_IDEMPOTENT,
    limits=tool_limits(60, output_bytes=MIB),
)
WAITING = """
    SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'workspace_pieces'::regclass
"""
TABLES = ("workspaces", "workspace_pieces", "workspace_blobs")


@pytest_asyncio.fixture
async def registry() -> AsyncIterator[RegistryOf]:
    async with running_registry() as running:
        yield running


@pytest_asyncio.fixture
async def url(database: Database) -> str:
    return await database("tool_adapters")


@asynccontextmanager
async def replica(
    url: str, folder: Path, registry: RegistryOf, **settings: Any
) -> AsyncIterator[AdaptersUnderTest]:
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240
    async with run_adapters(url, folder, registry, **settings) as running:
        running.register(PYTHON)
        yield running


@pytest_asyncio.fixture
async def replicas(
    url: str, tmp_path: Path, registry: RegistryOf
) -> AsyncIterator[Sequence[AdaptersUnderTest]]:
    async with (
        replica(url, tmp_path / "a", registry) as first,
        replica(url, tmp_path / "b", registry) as second,
    ):
        yield first, second


async def run(adapters: AdaptersUnderTest, code: str, episode_id: str = "e1") -> str:
    answer = await adapters.call("python", {"code": code}, episode_id=episode_id)
    return answer.output.content or answer.failure.message


async def stored(url: str) -> dict[str, int]:
    return {table: len(await rows(url, f"SELECT 1 FROM {table}")) for table in TABLES}


NOTHING = dict.fromkeys(TABLES, 0)


async def test_another_replica_finds_files_and_variables(
    replicas: Sequence[AdaptersUnderTest],
) -> None:
    first, second = replicas
    await run(first, "x = 5; _ = open('f', 'w').write('seven')")
    assert await run(second, "x += 1; print(x, open('f').read())") == "6 seven\n"
    assert await run(first, "x") == "6\n"


async def test_calls_that_meet_on_two_replicas_are_both_kept(
    replicas: Sequence[AdaptersUnderTest],
) -> None:
    await run(replicas[0], "done = []")
    await asyncio.gather(*(run(replicas[n % 2], f"done.append({n})") for n in range(6)))
    assert await run(replicas[0], "sorted(done)") == "[0, 1, 2, 3, 4, 5]\n"


async def test_what_does_not_change_is_stored_once(
    replicas: Sequence[AdaptersUnderTest], url: str
) -> None:
    data = "import os, random\n_ = open('z.bin', 'wb').write(random.Random(1).randbytes(4 << 20))"
    await run(replicas[0], data)
    before = {digest for (digest,) in await rows(url, "SELECT digest FROM workspace_blobs")}
    # A file that stands before it in the archive moves it.
    await run(replicas[0], "_ = open('a.txt', 'w').write('a' * 100_000)")
    after = {digest for (digest,) in await rows(url, "SELECT digest FROM workspace_blobs")}
    assert len(before & after) > 0.8 * len(before)
    assert await run(replicas[1], "import os; os.path.getsize('z.bin')") == f"{4 << 20}\n"


async def test_other_tenants_and_episodes_see_nothing(
    replicas: Sequence[AdaptersUnderTest],
) -> None:
    await run(replicas[0], "x = 5")
    assert "NameError" in await run(replicas[1], "x", "e2")
    request = pb.InvokeRequest(
        key="k", episode_id="e1", tool_name="python", tool_version=1,
        arguments_json=json.dumps({"code": "x"}),
    )  # fmt: skip
    async with replicas[1].as_caller("globex") as globex:
        assert "NameError" in (await globex.Invoke(request)).failure.message
        await globex.CloseEpisode(pb.CloseEpisodeRequest(episode_id="e1"))
    assert await run(replicas[0], "x") == "5\n"


async def test_an_episode_that_ends_leaves_nothing(
    replicas: Sequence[AdaptersUnderTest], url: str
) -> None:
    await run(replicas[0], "x = 5")
    await replicas[1].stub.CloseEpisode(pb.CloseEpisodeRequest(episode_id="e1"))
    assert await stored(url) == NOTHING
    assert "NameError" in await run(replicas[0], "x")


async def test_a_workspace_above_its_quota_is_not_kept_and_the_model_reads_why(
    url: str, tmp_path: Path, registry: RegistryOf
) -> None:
    async with replica(url, tmp_path, registry, workspace_bytes_max=MIB) as adapters:
        await run(adapters, "x = 5")
        said = await run(adapters, "x = 6; print('six'); _ = open('f', 'wb').write(bytes(2 << 20))")
        assert "the episode would hold 2.0 MiB of at most 1.0 MiB" in said
        assert said.endswith(
            "delete files and variables that are not needed\nsix\n"
            "[too many or too large to come back: f]"
        )
        assert await run(adapters, "import os; print(x, os.listdir())") == (
            "5 ['.variables.pickle']\n"
        )


async def test_a_tenants_quota_is_for_all_of_its_episodes(
    url: str, tmp_path: Path, registry: RegistryOf
) -> None:
    fill = "import os; _ = open('f', 'wb').write(os.urandom(3 << 20))"
    async with replica(url, tmp_path, registry, workspaces_bytes_per_tenant=4 * MIB) as adapters:
        await run(adapters, fill)
        answer = await adapters.call("python", {"code": fill}, episode_id="e2")
        assert answer.failure.kind == failure_pb2.FAILURE_KIND_LIMIT_EXCEEDED
        assert "all episodes of the tenant together would hold 6.0 MiB" in answer.failure.message
        assert not answer.failure.retryable
        assert answer.usage.quantities
        async with adapters.as_caller("globex") as globex:
            request = pb.InvokeRequest(
                key="k", episode_id="e2", tool_name="python", tool_version=1,
                arguments_json=json.dumps({"code": fill}),
            )  # fmt: skip
            assert (await globex.Invoke(request)).HasField("output")
        await run(adapters, "os.remove('f')")
        assert (await adapters.call("python", {"code": fill}, episode_id="e2")).HasField("output")


async def test_who_is_above_a_lowered_quota_may_still_get_below_it(
    url: str, tmp_path: Path, registry: RegistryOf
) -> None:
    fill = "import os; [open(n, 'wb').write(os.urandom(2 << 20)) for n in 'abc'] and None"
    async with replica(url, tmp_path / "a", registry) as adapters:
        await run(adapters, fill)
    async with replica(url, tmp_path / "b", registry, workspaces_bytes_per_tenant=MIB) as adapters:
        assert await run(adapters, "os.remove('a'); sorted(os.listdir())[1:]") == "['b', 'c']\n"
        assert "would hold" in await run(adapters, fill)


async def test_what_nobody_comes_back_for_is_deleted(
    url: str, tmp_path: Path, registry: RegistryOf
) -> None:
    async with replica(url, tmp_path / "a", registry, workspaces_kept_days=2) as adapters:
        await run(adapters, "x = 5", "old")
        await run(adapters, "x = 5", "young")
    async with connected(url) as connection:
        await connection.execute(
            "UPDATE workspaces SET save_time = now() - interval '3 days' WHERE episode_id = 'old'"
        )
    async with replica(url, tmp_path / "b", registry, workspaces_kept_days=2) as adapters:
        async with asyncio.timeout(60):
            while (await stored(url))["workspaces"] > 1:
                await asyncio.sleep(0.05)
        assert await run(adapters, "x", "young") == "5\n"
        assert "NameError" in await run(adapters, "x", "old")
        await adapters.stub.CloseEpisode(pb.CloseEpisodeRequest(episode_id="young"))
    assert (await stored(url))["workspace_blobs"] == 1


async def test_a_database_that_is_away_is_no_answer_and_the_call_may_be_made_again(
    url: str, tmp_path: Path, registry: RegistryOf
) -> None:
    async with (
        database_wire(url) as wire,
        replica(wire.database_url, tmp_path, registry) as adapters,
    ):
        await run(adapters, "x = 5")
        wire.fault = Fault.RESET
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await run(adapters, "x += 1")
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
        wire.fault = None
        assert await run(adapters, "x += 1; x") == "6\n"


async def test_a_replica_that_is_killed_as_it_saves_leaves_what_was_saved_before(
    url: str, tmp_path: Path, registry: RegistryOf
) -> None:
    keys, port = make_key_pair(), free_port()
    process = adapters_process(tmp_path, port, registry.port, url, keys)
    process.start()
    async with client_channel(port, make_identity(), keys) as channel:
        await asyncio.wait_for(channel.channel_ready(), 120)
        killed = AdaptersUnderTest(port, keys, registry, ToolAdapterServiceStub(channel), tmp_path)
        killed.register(PYTHON)
        await run(killed, "x = 5")
        before = await rows(url, "SELECT digest FROM workspace_pieces")
        async with connected(url) as blocker, blocker.transaction():
            await blocker.execute("LOCK workspace_pieces IN SHARE MODE")
            saving = asyncio.create_task(run(killed, "x = 6; _ = open('f', 'w').write('f')"))
            while not await rows(url, WAITING):
                assert not saving.done(), saving
                await asyncio.sleep(0.02)
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            saving.cancel()
    await process.terminate()
    async with replica(url, tmp_path, registry) as other:
        assert await rows(url, "SELECT digest FROM workspace_pieces") == before
        assert await run(other, "import os; print(x, os.path.exists('f'))") == "5 False\n"


async def test_a_damaged_piece_is_not_given_to_a_sandbox(
    replicas: Sequence[AdaptersUnderTest], url: str
) -> None:
    await run(replicas[0], "x = 5")
    async with connected(url) as connection:
        await connection.execute("UPDATE workspace_blobs SET content = content || 'x'::bytea")
    answer = await replicas[0].call("python", {"code": "x"}, episode_id="e1")
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_INTERNAL
