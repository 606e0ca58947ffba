"""Keyed records to a Kafka topic, acknowledged by the broker, and where a topic ends."""

from stream.check_kafka import BrokerCheck
from stream.offsets_kafka import end_offsets
from stream.producer_kafka import Producer, StreamRecord
from stream.refusals import BrokerUnavailable
from stream.settings import KafkaSettings

__all__ = [
    "BrokerCheck",
    "BrokerUnavailable",
    "KafkaSettings",
    "Producer",
    "StreamRecord",
    "end_offsets",
]
