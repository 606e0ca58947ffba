"""Keyed records to a Kafka topic, acknowledged by the broker, and where a topic ends."""

from podium_kit.stream.check_kafka import BrokerCheck
from podium_kit.stream.offsets_kafka import end_offsets
from podium_kit.stream.producer_kafka import Place, Producer, Rejection, StreamRecord
from podium_kit.stream.rejections import BrokerUnavailable, require_reachable
from podium_kit.stream.response_classes import make_response_classes
from podium_kit.stream.settings import KafkaSettings

__all__ = [
    "BrokerCheck",
    "BrokerUnavailable",
    "KafkaSettings",
    "Place",
    "Producer",
    "Rejection",
    "StreamRecord",
    "end_offsets",
    "require_reachable",
]

make_response_classes()
