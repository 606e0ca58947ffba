import asyncio
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from embedded_servers import Database
from integration.episodes.neighbours import answer, call, calls, in_turns
from integration.episodes.platform_under_test import (
    EpisodesPlatform,
    finished,
    run_platform,
    start,
)
from integration.episodes.topic import read_topic
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.temporal import EmbeddedTemporal


async def test_finished_episode_is_one_trajectory_and_one_closed_group(
    platform: EpisodesPlatform,
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    async with platform.client() as client:
        episode = await finished(client, (await start(client)).id)
    records = await _records(platform, 2)
    assert [record.WhichOneof("record") for record in records] == ["trajectory", "group_closed"]
    trajectory, closed = records[0].trajectory, records[1].group_closed
    assert trajectory.episode_id == trajectory.group_id == closed.group_id == episode.id
    assert [len(turn.tool_invocations) for turn in trajectory.turns] == [1, 0]
    assert list(trajectory.turns[0].model_call.response.completion_token_ids) == [4, 5]
    assert (trajectory.tenant, trajectory.training_consent) == (platform.tenant, True)


async def test_modelled_latencies_count_and_are_marked(platform: EpisodesPlatform) -> None:
    platform.neighbours.adapters.modelled_s = {"calculator": 600, "search": 900}
    platform.neighbours.orchestrator.decide = in_turns(
        calls(call("calculator"), call("search", index=1)), calls(call("calculator")), answer("42")
    )
    async with platform.client() as client:
        await finished(client, (await start(client)).id)
    trajectory = (await _records(platform, 2))[0].trajectory
    made = [each for turn in trajectory.turns for each in turn.tool_invocations]
    assert [each.latency.seconds for each in made] == [600, 900, 600]
    assert all(each.latency_modelled for each in made)
    # Calls of a turn run side by side; no one waited for any.
    assert trajectory.features.modelled_latency.seconds == 1500
    assert 1500 <= trajectory.features.latency.seconds < 1600
    assert trajectory.latency.seconds < 100


async def test_group_is_closed_once_after_its_last_member_whatever_its_end(
    platform: EpisodesPlatform,
) -> None:
    async with platform.client() as client:
        members = [
            await start(client, group={"id": "g1", "size": 3, "sample_index": index})
            for index in range(3)
        ]
        await asyncio.gather(*(finished(client, member.id) for member in members))
    records = await _records(platform, 4)
    kinds = Counter(record.WhichOneof("record") for record in records)
    assert kinds == {"trajectory": 3, "group_closed": 1}
    assert records[-1].WhichOneof("record") == "group_closed"
    assert list(records[-1].group_closed.episode_ids) == [member.id for member in members]


async def test_large_trajectory_travels_by_reference(platform: EpisodesPlatform) -> None:
    platform.neighbours.adapters.content = lambda request: "x" * 60_000
    many = calls(*(call("search", index=index) for index in range(20)))
    platform.neighbours.orchestrator.decide = in_turns(many, answer("done"))
    async with platform.client() as client:
        episode = await finished(client, (await start(client)).id)
    records = await _records(platform, 2)
    assert records[0].reference.episode_id == episode.id
    assert records[0].reference.size_bytes > 1_000_000


async def test_trajectory_a_trainer_could_not_use_is_kept_aside(
    platform: EpisodesPlatform,
) -> None:
    platform.neighbours.orchestrator.logprobs = [float("nan"), -0.2]
    async with platform.client() as client:
        episode = await finished(client, (await start(client)).id)
    records = await _records(platform, 1)
    assert [record.WhichOneof("record") for record in records] == ["group_closed"]
    assert "logprob" in await _dead_letter_reason(platform, episode.id)


@pytest.mark.chaos
async def test_records_the_broker_lost_are_published_again(
    database: Database, temporal: EmbeddedTemporal, tmp_path: Path
) -> None:
    kafka = EmbeddedKafka(free_port(), log_path=tmp_path / "kafka.log")
    await kafka.start()
    url = await database("episodes")
    async with (
        run_platform(url, temporal, kafka, tmp_path) as platform,
        platform.client() as client,
    ):
        episode = await finished(client, (await start(client)).id)
        await _records(platform, 2)
        # The embedded broker keeps its log in memory, so a restart loses what it acknowledged.
        await kafka.kill()
        await kafka.start()
        await kafka.create_topics({platform.topic: 3})
        records = await _records(platform, 2)
    await kafka.stop()
    assert records[0].trajectory.episode_id == episode.id
    assert episode.stop_reason == episode_pb2.STOP_REASON_ANSWERED


async def _records(platform: EpisodesPlatform, count: int) -> list[trajectory_pb2.TrajectoryRecord]:
    servers = platform.kafka.bootstrap_servers
    return await read_topic(servers, platform.topic, count, platform.tenant)


async def _dead_letter_reason(platform: EpisodesPlatform, episode_id: str) -> str:
    engine = create_async_engine(platform.database_url)
    try:
        async with engine.connect() as connection:
            reason = await connection.execute(
                text(
                    "SELECT dead_letter_reason FROM outbox"
                    " WHERE episode_id = CAST(:id AS uuid) AND kind = 'trajectory'"
                ),
                {"id": episode_id},
            )
            return str(reason.scalar_one())
    finally:
        await engine.dispose()
