"""The topics of the stream, where no operator makes them."""

import asyncio
import logging

import tenacity
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from podium_kit.client.errors import UserError
from podium_kit.stream.settings import KafkaSettings
from podium_operations.bootstrap.settings import Topic
from podium_operations.bootstrap.waiting import saying

log = logging.getLogger(__name__)

WAIT_S, WAITS_MAX = 2.0, 150
BOOTSTRAP_TIMEOUT_MS = 5_000


class TopicRejected(UserError):
    """The brokers do not make a topic."""


async def ensure_topics(kafka: KafkaSettings, topics: list[Topic]) -> list[str]:
    """Makes missing topics. Existing ones stay as they are: keys must not move."""
    return await asyncio.to_thread(_ensured, kafka, topics)


def _ensured(kafka: KafkaSettings, topics: list[Topic]) -> list[str]:
    admin = _connected(kafka)
    try:
        known = set(admin.list_topics())
        for each in topics:
            if each.topic in known:
                _compare(admin, each)
        return [made for each in topics if each.topic not in known for made in _made(admin, each)]
    except KafkaError as error:
        raise _away(kafka, error) from error
    finally:
        admin.close()


def _connected(kafka: KafkaSettings) -> KafkaAdminClient:
    patient = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((KafkaError, OSError)),
        wait=tenacity.wait_fixed(WAIT_S),
        stop=tenacity.stop_after_attempt(WAITS_MAX),
        before_sleep=saying(f"waiting for Kafka at {kafka.bootstrap}"),
        reraise=True,
    )
    try:
        admin: KafkaAdminClient = patient(
            KafkaAdminClient, **kafka.arguments(), bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS
        )
    except (KafkaError, OSError) as error:
        raise _away(kafka, error) from error
    return admin


def _made(admin: KafkaAdminClient, topic: Topic) -> list[str]:
    configs = {
        "cleanup.policy": "delete",
        "retention.ms": str(topic.retention_hours * 3_600_000),
        "min.insync.replicas": str(topic.min_in_sync_replicas),
        "compression.type": "producer",
        "max.message.bytes": str(topic.max_message_bytes),
    }
    try:
        admin.create_topics(
            [NewTopic(topic.topic, topic.partitions, topic.replicas, topic_configs=configs)]
        )
    except TopicAlreadyExistsError:
        return []
    except KafkaError as error:
        raise TopicRejected(
            f"Kafka does not make the topic {topic.topic} with {topic.partitions} partitions and "
            f"{topic.replicas} replicas: {error}",
            "correct kafka.trajectories and kafka.alerts: no more replicas than brokers",
        ) from error
    return [f"topic {topic.topic} ({topic.partitions} partitions)"]


def _compare(admin: KafkaAdminClient, topic: Topic) -> None:
    [found] = admin.describe_topics([topic.topic])
    if (partitions := len(found["partitions"])) != topic.partitions:
        log.warning(
            "topic %s has %d partitions, not %d: keys must not move, so they stay",
            topic.topic,
            partitions,
            topic.partitions,
        )


def _away(kafka: KafkaSettings, error: Exception) -> TopicRejected:
    return TopicRejected(
        f"Kafka at {kafka.bootstrap} does not answer: {error or type(error).__name__}",
        "start it, or correct endpoints.kafka; bootstrap.topics.enabled: false makes no topics",
    )
