import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from embedded_servers import Databases
from integration.episodes.neighbours import answer, call, calls, in_turns
from integration.episodes.platform_under_test import (
    EpisodesPlatform,
    finished,
    run_platform,
    start,
)
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.rpc.errors import FailedPrecondition, Unauthenticated, Unavailable
from podium_kit.wire import duration_to_proto
from temporary_files import server_folder

EPISODES = 20
LEDGER, REGISTRY = ("CostLedgerService/Apply",), ("PolicyService/CheckCalls",)
INFERENCE, ADAPTERS = ("OrchestratorService/NextAction",), ("ToolAdapterService/Invoke",)
AWAY = Unavailable("connection refused", retry_after_s=0.01)


@pytest_asyncio.fixture(scope="module")
async def impatient_platform(
    databases: Databases, temporal: EmbeddedTemporal, kafka: EmbeddedKafka
) -> AsyncIterator[EpisodesPlatform]:
    url = await databases.create("episodes")
    with server_folder("episodes") as folder:
        short = {"answer_timeout_s": "0.5"}
        async with run_platform(url, temporal, kafka, folder, short) as running:
            yield running


@pytest.fixture
def platform(impatient_platform: EpisodesPlatform) -> EpisodesPlatform:
    platform = impatient_platform.for_new_tenant()
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    return platform


@pytest.mark.parametrize("methods", [LEDGER, REGISTRY], ids=["ledger", "registry"])
async def test_a_service_that_stalls_delays_twenty_episodes_and_fails_none(
    platform: EpisodesPlatform, methods: tuple[str, ...]
) -> None:
    outage = platform.tenants.fail(platform.tenant, *methods)
    async with platform.client() as client:
        started = [await start(client) for _ in range(EPISODES)]
        # Every episode's call has run into its timeout, and into the one of its next attempt.
        await _until(lambda: outage.calls >= 2 * EPISODES)
        outage.end()
        ended = await asyncio.gather(*(finished(client, one.id) for one in started))
    assert {one.stop_reason for one in ended} == {episode_pb2.STOP_REASON_ANSWERED}


@pytest.mark.parametrize(
    # A tool whose adapters were away for eight attempts once was a failure the model saw.
    ("methods", "attempts"),
    [(LEDGER, 3), (REGISTRY, 3), (INFERENCE, 3), (ADAPTERS, 9)],
    ids=["ledger", "registry", "inference", "adapters"],
)
async def test_a_service_that_is_away_is_no_answer_and_no_end(
    platform: EpisodesPlatform, methods: tuple[str, ...], attempts: int
) -> None:
    outage = platform.tenants.fail(platform.tenant, *methods, error=AWAY)
    async with platform.client() as client:
        episode = await start(client)
        await _until(lambda: outage.calls >= attempts)
        outage.end()
        ended = await finished(client, episode.id)
    assert (ended.stop_reason, ended.answer) == (episode_pb2.STOP_REASON_ANSWERED, "42")
    [invocation] = await _invocations(platform, episode.id)
    assert invocation.observation.content == "calculator says {}"
    ledger = platform.neighbours.ledger
    assert set(ledger.holds) == set(ledger.captured)


@pytest.mark.parametrize(
    "methods",
    [LEDGER, REGISTRY, INFERENCE, ADAPTERS],
    ids=["ledger", "registry", "inference", "adapters"],
)
async def test_a_service_whose_keys_are_being_changed_is_waited_for(
    platform: EpisodesPlatform, methods: tuple[str, ...]
) -> None:
    stranger = Unauthenticated("the internal token is not valid")
    outage = platform.tenants.fail(platform.tenant, *methods, error=stranger)
    async with platform.client() as client:
        episode = await start(client)
        await _until(lambda: outage.calls >= 3)
        outage.end()
        ended = await finished(client, episode.id)
    assert (ended.stop_reason, ended.answer) == (episode_pb2.STOP_REASON_ANSWERED, "42")
    [invocation] = await _invocations(platform, episode.id)
    assert invocation.observation.content == "calculator says {}"


async def test_a_model_call_that_is_retried_asks_the_ledger_for_the_same(
    platform: EpisodesPlatform,
) -> None:
    # The time that is left shrinks from attempt to attempt, and with it the request: over a second
    # by a byte, which is an estimated token in every other request.
    outage = platform.tenants.fail(platform.tenant, *INFERENCE, error=AWAY)
    async with platform.client() as client:
        started = [await start(client, task="?" * (n % 2 + 1)) for n in range(EPISODES)]
        await _until(lambda: outage.calls >= EPISODES)
        await asyncio.sleep(1.1)
        outage.end()
        ended = await asyncio.gather(*(finished(client, one.id) for one in started))
    assert {one.stop_reason for one in ended} == {episode_pb2.STOP_REASON_ANSWERED}


async def test_only_the_deadline_of_an_episode_ends_its_wait(platform: EpisodesPlatform) -> None:
    platform.tenants.fail(platform.tenant, *ADAPTERS, error=AWAY)
    async with platform.client() as client:
        episode = await start(client, time_limit=duration_to_proto(2))
        ended = await finished(client, episode.id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_DEADLINE
    # Whether one of the attempts was made is not known, and no tool has answered.
    [invocation] = await _invocations(platform, episode.id)
    assert "cut off" in invocation.observation.failure.message and not invocation.HasField("cost")
    ledger = platform.neighbours.ledger
    assert set(ledger.unpriced) == {invocation.key}
    assert set(ledger.holds) == set(ledger.captured)


async def test_a_call_that_never_began_gives_its_hold_back_while_the_episode_goes_on(
    platform: EpisodesPlatform,
) -> None:
    error = FailedPrecondition("the adapters do not serve tools of this kind yet")
    platform.tenants.fail(platform.tenant, *ADAPTERS, error=error)
    released_before_answer: list[bool] = []
    ledger = platform.neighbours.ledger
    script = platform.neighbours.orchestrator.decide

    def decide(request: object) -> object:
        released_before_answer.append(bool(ledger.released))
        return script(request)  # type: ignore[arg-type]

    platform.neighbours.orchestrator.decide = decide  # type: ignore[assignment]
    async with platform.client() as client:
        episode = await finished(client, (await start(client)).id)
    assert episode.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert released_before_answer == [False, True]
    [invocation] = await _invocations(platform, episode.id)
    assert invocation.observation.failure.kind == failure_pb2.FAILURE_KIND_INTERNAL
    assert set(ledger.holds) - set(ledger.captured) == ledger.released


@pytest.mark.chaos
async def test_postgresql_that_is_gone_fails_no_episode_and_says_so_in_our_words(
    own_platform: EpisodesPlatform, postgres_server: EmbeddedPostgres, tmp_path: Path
) -> None:
    neighbours = own_platform.neighbours
    neighbours.orchestrator.delay_s = 0.5
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    async with own_platform.client() as client:
        started = [await start(client) for _ in range(EPISODES)]
    await _until(lambda: sum(neighbours.orchestrator.asked.values()) >= EPISODES)
    await postgres_server.kill()
    log = tmp_path / "episodes.worker.log"
    await _until(lambda: log.read_text().count("the service's database does not answer") > 3)
    await postgres_server.start()
    ended = await asyncio.gather(*(_ended(own_platform, one.id) for one in started))
    assert {one.stop_reason for one in ended} == {episode_pb2.STOP_REASON_ANSWERED}
    assert "internal error in episode" not in log.read_text()


async def _ended(platform: EpisodesPlatform, episode_id: str) -> episode_pb2.Episode:
    async with asyncio.timeout(120), platform.client() as client:
        while True:
            reply = await client.GetEpisode(pb.GetEpisodeRequest(episode_id=episode_id))
            if reply.episode.state == episode_pb2.EPISODE_STATE_FINISHED:
                return reply.episode
            await asyncio.sleep(0.2)


async def _invocations(
    platform: EpisodesPlatform, episode_id: str
) -> list[trajectory_pb2.ToolInvocation]:
    async with platform.client() as client:
        reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode_id))
    return list(reply.trajectory.turns[0].tool_invocations)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)
