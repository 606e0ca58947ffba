import asyncio
from decimal import Decimal

import pytest
from kafka import KafkaConsumer, TopicPartition

from e2e.conftest import WholePlatform
from e2e.episodes_over_http import entries, finished, start, trajectory
from podium.episodes.v1 import trajectory_pb2 as pb
from podium_kit.stream import KafkaSettings

pytestmark = [pytest.mark.chaos]

EPISODES = 20
CHARGES_PER_EPISODE = 5
TOPIC = "trajectories.v1"
VICTIMS = [
    "episodes_worker",
    "episodes",
    "cost_ledger",
    "orchestrator_inference",
    "tool_adapters",
    "tool_registry",
    "gateway",
    "postgres",
]


@pytest.mark.parametrize("victim", VICTIMS)
async def test_every_episode_survives_a_killed_process(whole: WholePlatform, victim: str) -> None:
    supervision = asyncio.create_task(whole.platform.supervise())
    async with whole.client() as client:
        ids = [await start(client, task=f"survive {number}") for number in range(EPISODES)]
        await asyncio.sleep(0.5)
        await whole.platform.processes[victim].kill()
        ended = await asyncio.gather(*(finished(client, episode_id) for episode_id in ids))
        failures = [episode["failure"] for episode in ended if "failure" in episode]
        assert not failures
        assert {episode["stop_reason"] for episode in ended} == {"STOP_REASON_ANSWERED"}
        for episode_id in ids:
            await _assert_charged_once(whole, episode_id)
    await _assert_on_topic(whole, set(ids))
    supervision.cancel()
    await asyncio.wait({supervision})


async def _assert_charged_once(whole: WholePlatform, episode_id: str) -> None:
    async with whole.client() as client:
        charged = await entries(client, episode_id)
        found = await trajectory(client, episode_id)
    assert len({entry["key"] for entry in charged}) == len(charged) == CHARGES_PER_EPISODE
    total = sum(Decimal(entry["amount"]["amount"]) for entry in charged)
    assert Decimal(found["cost"]["amount"]) == total


async def _assert_on_topic(whole: WholePlatform, ids: set[str]) -> None:
    async with asyncio.timeout(60):
        while not ids <= (seen := await asyncio.to_thread(_records, whole)).keys():
            await asyncio.sleep(0.5)
    assert all(len(record_ids) == 1 for record_ids in seen.values())


def _records(whole: WholePlatform) -> dict[str, set[str]]:
    kafka = KafkaSettings.model_validate(whole.connection.kafka)
    consumer = KafkaConsumer(**kafka.arguments(), enable_auto_commit=False)
    found: dict[str, set[str]] = {}
    try:
        numbers = consumer.partitions_for_topic(TOPIC) or set()
        partitions = [TopicPartition(TOPIC, number) for number in sorted(numbers)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(place) < end for place, end in ends.items()):
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    message = pb.TrajectoryRecord.FromString(record.value)
                    if message.HasField("trajectory"):
                        record_id = dict(record.headers)["record-id"].decode()
                        found.setdefault(message.trajectory.episode_id, set()).add(record_id)
        return found
    finally:
        consumer.close()
