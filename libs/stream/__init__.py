"""Keyed records to a Kafka topic, acknowledged by the broker before anyone relies on them."""

from stream.producer_kafka import BrokerUnavailable, Producer, StreamRecord

__all__ = ["BrokerUnavailable", "Producer", "StreamRecord"]
