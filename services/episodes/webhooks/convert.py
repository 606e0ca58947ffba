from episodes.errors import InvalidWebhook
from episodes.webhooks.models import Delivery, DeliveryState, EventType, Webhook
from podium.episodes.v1 import webhook_service_pb2 as pb
from podium.registry.v1 import tool_pb2
from podium_kit.wire import timestamp_to_proto

EVENT_TYPES = {
    EventType.EPISODE_ENDED: pb.WEBHOOK_EVENT_TYPE_EPISODE_ENDED,
    EventType.APPROVAL_REQUESTED: pb.WEBHOOK_EVENT_TYPE_APPROVAL_REQUESTED,
    EventType.RECORD_DEAD_LETTERED: pb.WEBHOOK_EVENT_TYPE_RECORD_DEAD_LETTERED,
    EventType.BUDGET_ALERT: pb.WEBHOOK_EVENT_TYPE_BUDGET_ALERT,
    EventType.FEEDBACK_GIVEN: pb.WEBHOOK_EVENT_TYPE_FEEDBACK_GIVEN,
    EventType.VERSION_PROMOTED: pb.WEBHOOK_EVENT_TYPE_VERSION_PROMOTED,
}
STATES = {
    DeliveryState.PENDING: pb.WEBHOOK_DELIVERY_STATE_PENDING,
    DeliveryState.DELIVERED: pb.WEBHOOK_DELIVERY_STATE_DELIVERED,
    DeliveryState.FAILED: pb.WEBHOOK_DELIVERY_STATE_FAILED,
}
_TYPES = {number: event_type for event_type, number in EVENT_TYPES.items()}
_STATES = {number: state for state, number in STATES.items()}


def webhook_from_proto(request: pb.PutWebhookRequest, subject: str) -> Webhook:
    types = dict.fromkeys(_TYPES.get(number) for number in request.event_types)
    if None in types:
        known = ", ".join(pb.WebhookEventType.Name(number) for number in _TYPES)
        raise InvalidWebhook("event_types", f"holds something else than {known}")
    chosen = tuple(each for each in types if each is not None)
    return Webhook(request.id, request.url, chosen, request.secret.name, subject)


def webhook_to_proto(webhook: Webhook) -> pb.Webhook:
    message = pb.Webhook(
        id=webhook.id,
        url=webhook.url,
        event_types=[EVENT_TYPES[each] for each in webhook.event_types],
        secret=tool_pb2.SecretRef(name=webhook.secret_name),
        created_by=webhook.created_by,
    )
    if webhook.create_time is not None:
        message.create_time.CopyFrom(timestamp_to_proto(webhook.create_time))
    return message


def states_from_proto(request: pb.ListWebhookDeliveriesRequest) -> list[DeliveryState]:
    if strange := [each for each in request.states if each not in _STATES]:
        raise InvalidWebhook("states", f"holds {strange[0]}, which is no state of a delivery")
    return [_STATES[each] for each in request.states]


def delivery_to_proto(delivery: Delivery) -> pb.WebhookDelivery:
    message = pb.WebhookDelivery(
        id=str(delivery.id),
        webhook_id=delivery.webhook_id,
        message_id=delivery.message_id,
        event_type=EVENT_TYPES[delivery.event_type],
        body_json=delivery.body,
        state=STATES[delivery.state],
        attempt_count=delivery.attempt_count,
        last_status_code=delivery.last_status_code,
        last_error=delivery.last_error,
        create_time=timestamp_to_proto(delivery.create_time),
    )
    if delivery.state is DeliveryState.PENDING:
        message.next_attempt_time.CopyFrom(timestamp_to_proto(delivery.next_attempt_time))
    return message
