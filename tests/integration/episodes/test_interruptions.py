import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
import pytest_asyncio

from callers import client_channel, make_identity
from embedded_servers import Database, Databases
from integration.episodes.neighbours import answer, call, calls, in_turns
from integration.episodes.platform_under_test import (
    Platform,
    finished,
    new_id,
    process_of,
    run_platform,
    serving,
    start,
    until,
)
from last_release import code_of_last_release
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.embedded.process import ManagedProcess
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.rpc.errors import DomainError, FailedPrecondition, Unauthenticated, Unavailable
from podium_kit.wire import duration_to_proto
from temporary_files import server_folder

if TYPE_CHECKING:
    # Only the stubs know the asynchronous face of a stub.
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub


EPISODES = 20
LEDGER, REGISTRY = ("CostLedgerService/Apply",), ("PolicyService/CheckCalls",)
INFERENCE, ADAPTERS = ("OrchestratorService/NextAction",), ("ToolAdapterService/Invoke",)
AWAY = Unavailable("connection refused", retry_after_s=0.01)
KEYS_CHANGE = Unauthenticated("the internal token is not valid")


@pytest_asyncio.fixture(scope="module")
async def impatient_platform(
    databases: Databases, temporal: EmbeddedTemporal, kafka: EmbeddedKafka
) -> AsyncIterator[Platform]:
    url = await databases.create("episodes")
    with server_folder("episodes") as folder:
        short = {"answer_timeout_s": "0.5"}
        async with run_platform(url, temporal, kafka, folder, short) as running:
            yield running


@pytest.fixture
def impatient(impatient_platform: Platform) -> Platform:
    impatient = impatient_platform.for_new_tenant()
    impatient.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    return impatient


@pytest.mark.parametrize("methods", [LEDGER, REGISTRY], ids=["ledger", "registry"])
async def test_a_service_that_stalls_delays_twenty_episodes_and_fails_none(
    impatient: Platform, methods: tuple[str, ...]
) -> None:
    outage = impatient.tenants.fail(impatient.tenant, *methods)
    started = [await start(impatient.ada) for _ in range(EPISODES)]
    # Every episode's call has run into its timeout, and into the one of its next attempt.
    await until(lambda: outage.calls >= 2 * EPISODES)
    outage.end()
    ended = await asyncio.gather(*(finished(impatient.ada, one.id) for one in started))
    assert {one.stop_reason for one in ended} == {episode_pb2.STOP_REASON_ANSWERED}


@pytest.mark.parametrize(
    ("methods", "error", "attempts"),
    [
        # A tool whose adapters were away for eight attempts once was a failure the model saw.
        (ADAPTERS, AWAY, 9),
        *((methods, AWAY, 3) for methods in (LEDGER, REGISTRY, INFERENCE)),
        *((methods, KEYS_CHANGE, 3) for methods in (LEDGER, REGISTRY, INFERENCE, ADAPTERS)),
    ],
)
async def test_a_service_that_is_away_or_whose_keys_change_is_no_answer_and_no_end(
    impatient: Platform, methods: tuple[str, ...], error: DomainError, attempts: int
) -> None:
    outage = impatient.tenants.fail(impatient.tenant, *methods, error=error)
    episode = await start(impatient.ada)
    await until(lambda: outage.calls >= attempts)
    outage.end()
    ended = await finished(impatient.ada, episode.id)
    assert (ended.stop_reason, ended.answer) == (episode_pb2.STOP_REASON_ANSWERED, "42")
    [invocation] = await impatient.invocations(episode.id)
    assert invocation.observation.content == "calculator says {}"
    ledger = impatient.neighbours.ledger
    assert set(ledger.holds) == set(ledger.captured)


async def test_a_model_call_that_is_retried_asks_the_ledger_for_the_same(
    impatient: Platform,
) -> None:
    # The time that is left shrinks from attempt to attempt, and with it the request: over a second
    # by a byte, which is an estimated token in every other request.
    outage = impatient.tenants.fail(impatient.tenant, *INFERENCE, error=AWAY)
    started = [await start(impatient.ada, task="?" * (n % 2 + 1)) for n in range(EPISODES)]
    await until(lambda: outage.calls >= EPISODES)
    await asyncio.sleep(1.1)
    outage.end()
    ended = await asyncio.gather(*(finished(impatient.ada, one.id) for one in started))
    assert {one.stop_reason for one in ended} == {episode_pb2.STOP_REASON_ANSWERED}


async def test_only_the_deadline_of_an_episode_ends_its_wait(impatient: Platform) -> None:
    impatient.tenants.fail(impatient.tenant, *ADAPTERS, error=AWAY)
    episode = await start(impatient.ada, time_limit=duration_to_proto(2))
    ended = await finished(impatient.ada, episode.id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_DEADLINE
    # Whether one of the attempts was made is not known, and no tool has answered.
    [invocation] = await impatient.invocations(episode.id)
    assert "cut off" in invocation.observation.failure.message and not invocation.HasField("cost")
    ledger = impatient.neighbours.ledger
    assert set(ledger.unpriced) == {invocation.key}
    assert set(ledger.holds) == set(ledger.captured)


async def test_a_call_that_never_began_gives_its_hold_back_while_the_episode_goes_on(
    impatient: Platform,
) -> None:
    error = FailedPrecondition("the adapters do not serve tools of this kind yet")
    impatient.tenants.fail(impatient.tenant, *ADAPTERS, error=error)
    released_before_answer: list[bool] = []
    ledger = impatient.neighbours.ledger
    script = impatient.neighbours.orchestrator.decide

    def decide(request: object) -> object:
        released_before_answer.append(bool(ledger.released))
        return script(request)  # type: ignore[arg-type]

    impatient.neighbours.orchestrator.decide = decide  # type: ignore[assignment]
    episode = await impatient.run()
    assert episode.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert released_before_answer == [False, True]
    [invocation] = await impatient.invocations(episode.id)
    assert invocation.observation.failure.kind == failure_pb2.FAILURE_KIND_INTERNAL
    assert set(ledger.holds) - set(ledger.captured) == ledger.released


@pytest.mark.chaos
async def test_postgresql_that_is_gone_fails_no_episode_and_says_so_in_our_words(
    own_platform: Platform, postgres_server: EmbeddedPostgres, tmp_path: Path
) -> None:
    neighbours = own_platform.neighbours
    neighbours.orchestrator.delay_s = 0.5
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    async with own_platform.client() as client:
        started = [await start(client) for _ in range(EPISODES)]
    await until(lambda: sum(neighbours.orchestrator.asked.values()) >= EPISODES)
    await postgres_server.kill()
    log = tmp_path / "episodes.worker.log"
    await until(lambda: log.read_text().count("the service's database does not answer") > 3)
    await postgres_server.start()
    ended = await asyncio.gather(*(_ended(own_platform, one.id) for one in started))
    assert {one.stop_reason for one in ended} == {episode_pb2.STOP_REASON_ANSWERED}
    assert "internal error in episode" not in log.read_text()


async def _ended(impatient: Platform, episode_id: str) -> episode_pb2.Episode:
    async with asyncio.timeout(120), impatient.client() as client:
        while True:
            reply = await client.GetEpisode(pb.GetEpisodeRequest(episode_id=episode_id))
            if reply.episode.state == episode_pb2.EPISODE_STATE_FINISHED:
                return reply.episode
            await asyncio.sleep(0.2)


STEPS_PER_EPISODE = 5
Kill = Callable[[], Awaitable[None]]


@pytest.mark.chaos
async def test_killed_worker_continues_every_episode_where_it_was(own_platform: Platform) -> None:
    async def kill() -> None:
        await own_platform.worker.kill()
        own_platform.worker.start()

    await _run_through(own_platform, kill)


@pytest.mark.chaos
async def test_killed_server_loses_no_episode(own_platform: Platform) -> None:
    async def kill() -> None:
        await own_platform.server.kill()
        own_platform.server.start()
        await own_platform.ready()

    await _run_through(own_platform, kill)


@pytest.mark.chaos
async def test_killed_database_loses_no_episode(
    own_platform: Platform, postgres_server: EmbeddedPostgres
) -> None:
    async def kill() -> None:
        await postgres_server.kill()
        await postgres_server.start()

    await _run_through(own_platform, kill)


async def _run_through(platform: Platform, kill: Kill) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.delay_s = 0.4
    neighbours.adapters.delay_s = 0.2
    neighbours.orchestrator.decide = in_turns(
        calls(call("calculator")), calls(call("search")), answer("done")
    )
    async with platform.client() as client:
        started = [await start(client) for _ in range(EPISODES)]
    await until(lambda: sum(neighbours.adapters.invoked.values()) >= EPISODES // 2)
    await kill()
    ended = await asyncio.gather(*(_finished_after_all(platform, one.id) for one in started))
    assert {episode.stop_reason for episode in ended} == {episode_pb2.STOP_REASON_ANSWERED}
    _assert_charged_once(platform, ended)
    await _assert_on_topic_once(platform, ended)


def _assert_charged_once(platform: Platform, ended: list[episode_pb2.Episode]) -> None:
    ledger = platform.neighbours.ledger
    assert len(ledger.captured) == EPISODES * STEPS_PER_EPISODE
    assert not set(ledger.holds) - set(ledger.captured)
    for episode in ended:
        assert Decimal(episode.cost.amount) == ledger.total(episode.id)


async def _assert_on_topic_once(platform: Platform, ended: list[episode_pb2.Episode]) -> None:
    ids = {episode.id for episode in ended}
    async with asyncio.timeout(60):
        # A relay that died between the broker's answer and its own note sends again, under the
        # same record id; consumers drop what they have seen.
        while not ids <= (seen := await _on_topic(platform)).keys():
            await asyncio.sleep(0.2)
    assert set(seen) == ids
    assert all(count <= 2 for count in seen.values())


async def _on_topic(platform: Platform) -> Counter[str]:
    records = await platform.records(EPISODES)
    return Counter(r.trajectory.episode_id for r in records if r.HasField("trajectory"))


async def _finished_after_all(platform: Platform, episode_id: str) -> episode_pb2.Episode:
    async with asyncio.timeout(120):
        while True:
            try:
                return await finished(platform.ada, episode_id)
            except (grpc.aio.AioRpcError, AssertionError):
                await asyncio.sleep(0.5)


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
) -> AsyncIterator[Platform]:
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
    def of(cls, platform: Platform, folder: Path, code: list[str]) -> "Before":
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
    platform: Platform
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
        await until(lambda: len(self.begun) >= begun and len(self.ended) >= ended)

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


@pytest.mark.chaos
async def test_an_update_and_its_way_back_lose_no_episode(
    platform: Platform, code_before: list[str], tmp_path: Path
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
