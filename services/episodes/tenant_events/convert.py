import json

from google.protobuf import json_format

from episodes.models import StopReason
from episodes.publication.trajectory import STOP_REASON_TO_WIRE
from episodes.tenant_events.models import HEARTBEAT, OPENED, StreamedEvent
from episodes.webhooks.models import EventType, StreamedEventType
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import tenant_event_service_pb2 as pb
from podium_kit.wire import timestamp_to_proto

FIELDS = {
    OPENED: "opened",
    HEARTBEAT: "heartbeat",
    StreamedEventType.EPISODE_STARTED: "episode_started",
    EventType.EPISODE_ENDED: "episode_ended",
    EventType.APPROVAL_REQUESTED: "approval_requested",
    StreamedEventType.APPROVAL_DECIDED: "approval_decided",
    EventType.BUDGET_ALERT: "budget_limit_passed",
}


def event_to_proto(event: StreamedEvent) -> pb.TenantEvent | None:
    """Returns None for events that webhooks alone tell of."""
    if (field := FIELDS.get(event.type)) is None:
        return None
    message = pb.TenantEvent(position=str(event.position), time=timestamp_to_proto(event.time))
    part = getattr(message, field)
    part.SetInParent()
    if event.type == OPENED:
        part.events_missed = event.events_missed
        return message
    data = json.loads(event.body).get("data", {})
    if "stop_reason" in data:
        number = STOP_REASON_TO_WIRE[StopReason(data["stop_reason"])]
        data["stop_reason"] = episode_pb2.StopReason.Name(number)
    # Webhooks tell more of some.
    json_format.ParseDict(data, part, ignore_unknown_fields=True)
    return message
