"""Keyed records to a Kafka topic, acknowledged by the broker, and where a topic ends."""

from stream.offsets_kafka import end_offsets
from stream.producer_kafka import BrokerUnavailable, Producer, StreamRecord
from stream.settings import KafkaSettings

__all__ = ["BrokerUnavailable", "KafkaSettings", "Producer", "StreamRecord", "end_offsets"]
