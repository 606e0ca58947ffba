"""Stop reasons of the domain and of the wire."""

from episodes.models import StopReason
from podium.episodes.v1 import episode_pb2

STOP_REASON_TO_WIRE = {
    reason: episode_pb2.StopReason.Value(f"STOP_REASON_{reason.name}") for reason in StopReason
}
