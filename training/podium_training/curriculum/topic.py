"""Demonstrations from one topic, and their steps to another."""

import hashlib
from collections import Counter
from collections.abc import Iterable

from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError

from podium.episodes.v1.trajectory_pb2 import Trajectory, TrajectoryRecord
from podium_kit.stream import KafkaSettings, Producer, Rejection, StreamRecord
from podium_training.curriculum.errors import NoCurriculum
from podium_training.grpo.config import StreamConfig
from podium_training.grpo.data.convert import episode_from_proto
from podium_training.grpo.data.envelopes import MEMBER, SCHEMA, open_record
from podium_training.grpo.data.episodes import Limits, Rejected
from podium_training.grpo.data.stream import LogReader

PATIENCE_S = 5.0
# Whose tokens these are is checked by the trainer.
VOCABULARY_MAX = 2**31
UNSOLVED = "unsolved"


def records(number: int, step: Iterable[Trajectory]) -> list[StreamRecord]:
    """A step's, each a group of its own with a name that no other step has."""
    return [_record(f"step-{number}-{place}", each) for place, each in enumerate(step)]


def _record(name: str, episode: Trajectory) -> StreamRecord:
    named = Trajectory()
    named.CopyFrom(episode)
    named.episode_id, named.group_id, named.group_size = name, name, 1
    value = TrajectoryRecord(trajectory=named).SerializeToString()
    headers = {
        "schema": SCHEMA,
        "record-id": f"{MEMBER}:{name}:v1",
        "digest": hashlib.sha256(value).hexdigest(),
    }
    return StreamRecord(name, value, headers)


def demonstrated(kafka: KafkaSettings, topic: str) -> tuple[list[Trajectory], Counter[str]]:
    """The solved episodes of a topic that may be learnt from, and why others are left out.

    Raises LogCut.
    """
    reader = LogReader(kafka, topic)
    found: list[Trajectory] = []
    left_out: Counter[str] = Counter()
    try:
        for record in reader.records(PATIENCE_S):
            try:
                message = open_record(record)
                if not message.HasField("trajectory"):
                    continue
                episode = episode_from_proto(message.trajectory, Limits(VOCABULARY_MAX))
            except Rejected as error:
                left_out[error.reason] += 1
                continue
            if episode.features.solved:
                found.append(message.trajectory)
            else:
                left_out[UNSOLVED] += 1
    finally:
        reader.close()
    return found, left_out


async def write(stream: StreamConfig, steps: Iterable[Iterable[Trajectory]]) -> int:
    """To the topic of the run; how many records. Raises BrokerUnavailable."""
    make_topic(stream)
    producer, count = Producer(stream), 0
    try:
        for number, step in enumerate(steps, start=1):
            batch = records(number, step)
            for outcome in await producer.send(stream.topic, batch):
                if isinstance(outcome, Rejection):
                    raise NoCurriculum(
                        f"the topic takes no record of step {number}: {outcome.reason}"
                    )
            count += len(batch)
    finally:
        await producer.close()
    return count


def make_topic(stream: StreamConfig) -> None:
    """One partition, so that the order is kept. Raises NoCurriculum where the topic exists."""
    admin = KafkaAdminClient(**stream.arguments())
    try:
        admin.create_topics([NewTopic(stream.topic, 1, -1)])
    except TopicAlreadyExistsError as error:
        raise NoCurriculum(
            f"there is a topic {stream.topic} already; name another in stream.topic"
        ) from error
    finally:
        admin.close()
