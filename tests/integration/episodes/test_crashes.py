import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from decimal import Decimal

import grpc
import pytest

from integration.episodes.neighbours import answer, call, calls, in_turns
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from integration.episodes.topic import read_topic
from podium.episodes.v1 import episode_pb2
from podium_kit.embedded.postgres import EmbeddedPostgres

pytestmark = pytest.mark.chaos

EPISODES = 20
STEPS_PER_EPISODE = 5
Kill = Callable[[], Awaitable[None]]


async def test_killed_worker_continues_every_episode_where_it_was(
    own_platform: EpisodesPlatform,
) -> None:
    async def kill() -> None:
        await own_platform.worker.kill()
        own_platform.worker.start()

    await _run_through(own_platform, kill)


async def test_killed_server_loses_no_episode(own_platform: EpisodesPlatform) -> None:
    async def kill() -> None:
        await own_platform.server.kill()
        own_platform.server.start()
        await own_platform.ready()

    await _run_through(own_platform, kill)


async def test_killed_database_loses_no_episode(
    own_platform: EpisodesPlatform, postgres_server: EmbeddedPostgres
) -> None:
    async def kill() -> None:
        await postgres_server.kill()
        await postgres_server.start()

    await _run_through(own_platform, kill)


async def _run_through(platform: EpisodesPlatform, kill: Kill) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.delay_s = 0.4
    neighbours.adapters.delay_s = 0.2
    neighbours.orchestrator.decide = in_turns(
        calls(call("calculator")), calls(call("search")), answer("done")
    )
    async with platform.client() as client:
        started = [await start(client) for _ in range(EPISODES)]
    await _until(lambda: sum(neighbours.adapters.invoked.values()) >= EPISODES // 2)
    await kill()
    ended = await asyncio.gather(*(_finished_after_all(platform, one.id) for one in started))
    assert {episode.stop_reason for episode in ended} == {episode_pb2.STOP_REASON_ANSWERED}
    _assert_charged_once(platform, ended)
    await _assert_on_topic_once(platform, ended)


def _assert_charged_once(platform: EpisodesPlatform, ended: list[episode_pb2.Episode]) -> None:
    ledger = platform.neighbours.ledger
    assert len(ledger.captured) == EPISODES * STEPS_PER_EPISODE
    assert not set(ledger.holds) - set(ledger.captured)
    for episode in ended:
        assert Decimal(episode.cost.amount) == ledger.total(episode.id)


async def _assert_on_topic_once(
    platform: EpisodesPlatform, ended: list[episode_pb2.Episode]
) -> None:
    ids = {episode.id for episode in ended}
    async with asyncio.timeout(60):
        # A relay that died between the broker's answer and its own note sends again, under the
        # same record id; consumers drop what they have seen.
        while not ids <= (seen := await _on_topic(platform)).keys():
            await asyncio.sleep(0.2)
    assert set(seen) == ids
    assert all(count <= 2 for count in seen.values())


async def _on_topic(platform: EpisodesPlatform) -> Counter[str]:
    records = await read_topic(
        platform.kafka.bootstrap_servers, platform.topic, EPISODES, platform.tenant
    )
    return Counter(r.trajectory.episode_id for r in records if r.HasField("trajectory"))


async def _finished_after_all(platform: EpisodesPlatform, episode_id: str) -> episode_pb2.Episode:
    async with asyncio.timeout(120):
        while True:
            try:
                async with platform.client() as client:
                    return await finished(client, episode_id)
            except (grpc.aio.AioRpcError, AssertionError):
                await asyncio.sleep(0.5)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)
