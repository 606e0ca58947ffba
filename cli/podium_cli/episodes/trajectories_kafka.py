"""Reading the trajectory topic by manual assignment: no group, nothing is committed."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from google.protobuf.message import DecodeError
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from podium.episodes.v1 import trajectory_pb2
from podium_kit.client.errors import UserError
from podium_kit.stream import KafkaSettings
from podium_kit.stream.clients import end_offsets, polled_up_to

POLL_MS = 500


class StreamUnusable(UserError):
    def __init__(self, servers: str, topic: str, cause: str) -> None:
        super().__init__(f"cannot read topic {topic} at {servers}: {cause}", "see `podium status`")


class KafkaMisconfigured(UserError):
    def __init__(self, error: ValidationError) -> None:
        faults = "; ".join(fault["msg"] for fault in error.errors(include_input=False))
        super().__init__(
            f"PODIUM_KAFKA__... is not usable: {faults}", "see libs/podium_kit/stream/README.md"
        )


class TailSettings(BaseSettings):
    """Settings of the broker besides its address: PODIUM_KAFKA__SECURITY_PROTOCOL, ..."""

    model_config = SettingsConfigDict(env_prefix="PODIUM_", env_nested_delimiter="__")

    kafka: KafkaSettings


def kafka_settings(known: dict[str, str]) -> KafkaSettings:
    """These settings and, for what they leave open, the environment's.

    Raises KafkaMisconfigured.
    """
    try:
        return TailSettings(kafka=known).kafka
    except ValidationError as error:
        raise KafkaMisconfigured(error) from error


async def tail_records(
    kafka: KafkaSettings, topic: str, last: int, follow: bool
) -> AsyncIterator[trajectory_pb2.TrajectoryRecord]:
    """The last records in the order of their time, then new ones. Raises StreamUnusable."""
    servers = kafka.bootstrap
    try:
        consumer = await asyncio.to_thread(KafkaConsumer, **kafka.reading(), group_id=None)
    except KafkaError as error:
        raise StreamUnusable(servers, topic, str(error)) from error
    try:
        for record in await asyncio.to_thread(_last_records, consumer, servers, topic, last):
            yield record
        while follow:
            for message in await asyncio.to_thread(_poll, consumer):
                yield _parsed(message, servers, topic)
    finally:
        consumer.close()


def _last_records(
    consumer: Any, servers: str, topic: str, last: int
) -> list[trajectory_pb2.TrajectoryRecord]:
    partitions = [
        TopicPartition(topic, each) for each in consumer.partitions_for_topic(topic) or ()
    ]
    if not partitions:
        raise StreamUnusable(servers, topic, "there is no such topic")
    ends = end_offsets(consumer, partitions)
    starts = consumer.beginning_offsets(partitions)
    for partition in partitions:
        # The last records of all may be in any one partition.
        consumer.seek(partition, max(ends[partition] - last, starts[partition]))
    messages: list[Any] = []
    for polled in polled_up_to(consumer, ends):
        messages += _messages(polled)
    messages.sort(key=lambda message: message.timestamp)
    return [_parsed(message, servers, topic) for message in messages[len(messages) - last :]]


def _poll(consumer: Any) -> list[Any]:
    return _messages(consumer.poll(POLL_MS))


def _messages(polled: Mapping[Any, list[Any]]) -> list[Any]:
    return [message for batch in polled.values() for message in batch]


def _parsed(message: Any, servers: str, topic: str) -> trajectory_pb2.TrajectoryRecord:
    try:
        return trajectory_pb2.TrajectoryRecord.FromString(message.value)
    except DecodeError as error:
        raise StreamUnusable(servers, topic, "it holds something else") from error
