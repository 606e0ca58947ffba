from podium_kit.stream.records import Outcome, Place, Rejection, StreamRecord
from podium_kit.stream.rejections import BrokerUnavailable, require_reachable
from podium_kit.stream.settings import KafkaSettings

__all__ = [
    "BrokerUnavailable",
    "KafkaSettings",
    "Outcome",
    "Place",
    "Rejection",
    "StreamRecord",
    "require_reachable",
]
