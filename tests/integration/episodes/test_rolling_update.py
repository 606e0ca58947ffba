import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
import pytest_asyncio

from callers import client_channel, make_identity
from embedded_servers import Database
from integration.episodes.neighbours import answer, call, calls, in_turns
from integration.episodes.platform_under_test import (
    EpisodesPlatform,
    finished,
    new_id,
    process_of,
    run_platform,
    serving,
)
from last_release import code_of_last_release
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.process import ManagedProcess
from podium_kit.embedded.temporal import EmbeddedTemporal

if TYPE_CHECKING:
    # Only the stubs know the asynchronous face of a stub.
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub

pytestmark = pytest.mark.chaos

# Episodes that have to begin and to end in each phase of the update.
ENOUGH = 8
PAUSE_S = 0.2
# A server ends its watches when it stops. INTERNAL is what versions before this one answer to a
# statement that a migration made stale (test_errors.py).
AGAIN = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL}


@pytest.fixture
def code_before(tmp_path: Path) -> list[str]:
    return code_of_last_release(tmp_path)


@pytest_asyncio.fixture
async def platform(
    database: Database, temporal: EmbeddedTemporal, kafka: EmbeddedKafka, tmp_path: Path
) -> AsyncIterator[EpisodesPlatform]:
    folder = tmp_path / "platform"
    folder.mkdir()
    async with run_platform(await database(), temporal, kafka, folder, started=False) as platform:
        neighbours = platform.neighbours
        neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
        # Episodes take longer than the pause between two starts, so some run at every change.
        neighbours.orchestrator.delay_s = neighbours.adapters.delay_s = 0.5
        yield platform


@dataclass
class Before:
    server: ManagedProcess
    worker: ManagedProcess
    port: int

    @classmethod
    def of(cls, platform: EpisodesPlatform, folder: Path, code: list[str]) -> "Before":
        port, settings = free_port(), platform.settings
        for_server = {**settings["episodes"], "port": str(port)}
        for_worker = {**settings["episodes.worker"], "health_port": str(free_port())}
        return cls(
            server=process_of("episodes", folder, for_server, code),
            worker=process_of("episodes.worker", folder, for_worker, code),
            port=port,
        )

    async def end(self) -> None:
        await self.worker.terminate()
        await self.server.terminate()


@dataclass
class Load:
    platform: EpisodesPlatform
    port: int
    begun: list[str] = field(default_factory=list)
    ended: list[episode_pb2.Episode] = field(default_factory=list)
    enough: bool = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._start_on(group))
            yield
            # The start under way is waited for: every answered one is in `begun`.
            self.enough = True

    async def go_on(self) -> None:
        begun, ended = len(self.begun) + ENOUGH, len(self.ended) + ENOUGH
        await _until(lambda: len(self.begun) >= begun and len(self.ended) >= ended)

    async def _start_on(self, group: asyncio.TaskGroup) -> None:
        while not self.enough:
            episode_id = new_id()
            await self._answered(partial(start_as, episode_id))
            self.begun.append(episode_id)
            group.create_task(self._follow(episode_id))
            await asyncio.sleep(PAUSE_S)

    async def _follow(self, episode_id: str) -> None:
        self.ended.append(await self._answered(lambda client: finished(client, episode_id)))

    async def _answered(
        self, ask: Callable[["EpisodeServiceAsyncStub"], Awaitable[episode_pb2.Episode]]
    ) -> episode_pb2.Episode:
        while True:
            try:
                async with self.client() as client:
                    return await ask(client)
            except grpc.aio.AioRpcError as error:
                assert error.code() in AGAIN, error
                await asyncio.sleep(PAUSE_S)

    @asynccontextmanager
    async def client(self) -> AsyncIterator["EpisodeServiceAsyncStub"]:
        identity = make_identity(self.platform.tenant, "ada")
        async with client_channel(self.port, identity, self.platform.keys) as channel:
            yield EpisodeServiceStub(channel)


async def start_as(episode_id: str, client: "EpisodeServiceAsyncStub") -> episode_pb2.Episode:
    spec = episode_pb2.EpisodeSpec(task="what is 6 x 7?")
    request = pb.StartEpisodeRequest(episode_id=episode_id, spec=spec)
    return (await client.StartEpisode(request)).episode


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.05)


async def test_an_update_and_its_way_back_lose_no_episode(
    platform: EpisodesPlatform, code_before: list[str], tmp_path: Path
) -> None:
    before = Before.of(platform, tmp_path / "before", code_before)
    try:
        before.server.start()
        await before.server.wait_ready(lambda: serving(before.port), 60)
        before.worker.start()
        load = Load(platform, before.port)
        async with load.running():
            await load.go_on()
            # The first process of the new version is a worker, and migrates under the old ones.
            platform.worker.start()
            await load.go_on()
            await before.worker.terminate()
            await load.go_on()
            platform.server.start()
            await platform.ready()
            load.port = platform.port
            await before.server.terminate()
            await load.go_on()
            # The way back: the version before starts on a schema that is newer than it.
            before.server.start()
            before.worker.start()
            await before.server.wait_ready(lambda: serving(before.port), 60)
            await platform.worker.terminate()
            load.port = before.port
            await platform.server.terminate()
            await load.go_on()
        # What either version ended, the other reads.
        platform.server.start()
        await platform.ready()
        for load.port in (before.port, platform.port):
            async with load.client() as client:
                for episode_id in load.begun:
                    asked = pb.GetTrajectoryRequest(episode_id=episode_id)
                    assert (await client.GetTrajectory(asked)).trajectory.answer == "42"
    finally:
        await before.end()
    assert {each.id for each in load.ended} == set(load.begun)
    reasons = {(each.stop_reason, each.answer) for each in load.ended}
    assert reasons == {(episode_pb2.STOP_REASON_ANSWERED, "42")}
    # A call was made, held and charged once.
    ledger, adapters = platform.neighbours.ledger, platform.neighbours.adapters
    assert set(ledger.holds) == set(ledger.captured)
    made = [request.key for request in adapters.requests]
    assert {key.split("/")[0] for key in made} == set(load.begun)
