"""Clients of the brokers. A service without a stream starts without them and their library."""

from podium_kit.stream.check_kafka import BrokerCheck
from podium_kit.stream.offsets_kafka import ask_anew, end_offsets, gave_all, polled_up_to
from podium_kit.stream.producer_kafka import Producer
from podium_kit.stream.response_classes import make_response_classes

__all__ = ["BrokerCheck", "Producer", "ask_anew", "end_offsets", "gave_all", "polled_up_to"]

make_response_classes()
