from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.engine import Row
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from episodes.webhooks.events import version_promoted
from episodes.webhooks.models import (
    Attempt,
    Delivery,
    DeliveryState,
    DueDelivery,
    Event,
    EventType,
    Webhook,
)
from podium_kit.postgres.engine import autocommit, transaction

# A webhook gets no event from before it.
# `only_if` is a condition of a statement that this is a part of.
ADD_EVENT = """
    INSERT INTO webhook_deliveries (tenant, webhook_id, message_id, event_type, body)
    SELECT tenant, id, :message_id, :event_type, :event_body FROM webhooks
    WHERE tenant = :tenant AND (event_types = '{{}}' OR :event_type = ANY(event_types))
        AND (CAST(:time AS timestamptz) IS NULL OR create_time <= CAST(:time AS timestamptz))
        AND {only_if}
    ON CONFLICT (tenant, webhook_id, message_id) DO NOTHING
"""
# The same for the stream of the tenant's events. It is added only while a repetition is found.
ADD_TENANT_EVENT = """
    INSERT INTO tenant_events (tenant, message_id, event_type, body)
    SELECT :tenant, :message_id, :event_type, :event_body
    WHERE {only_if} AND (CAST(:time AS timestamptz) IS NULL
        OR CAST(:time AS timestamptz) > clock_timestamp() - interval '30 minutes')
    ON CONFLICT (tenant, message_id) DO NOTHING
"""
ADD = text(
    f"WITH streamed AS ({ADD_TENANT_EVENT.format(only_if='true')})"
    f" {ADD_EVENT.format(only_if='true')}"
)
TENANTS = text(
    """
    SELECT tenant, min(create_time) AS since FROM webhooks
    WHERE event_types = '{}' OR :event_type = ANY(event_types) GROUP BY tenant
    """
)
# The lock makes the count true when several are registered at once.
LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('webhooks/' || :tenant, 0))")
OTHERS = text("SELECT count(*) FROM webhooks WHERE tenant = :tenant AND id <> :id")
PUT = text(
    """
    INSERT INTO webhooks (tenant, id, url, event_types, secret_name, created_by)
    VALUES (:tenant, :id, :url, CAST(:event_types AS text[]), :secret_name, :created_by)
    ON CONFLICT (tenant, id) DO UPDATE SET url = excluded.url,
        event_types = excluded.event_types, secret_name = excluded.secret_name,
        created_by = excluded.created_by, create_time = clock_timestamp()
    RETURNING *
    """
)
LIST = text(
    "SELECT * FROM webhooks WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit"
)
DELETE = text("DELETE FROM webhooks WHERE tenant = :tenant AND id = :id")
DELIVERIES = text(
    """
    SELECT * FROM webhook_deliveries WHERE tenant = :tenant AND id < :before
        AND (:webhook_id = '' OR webhook_id = :webhook_id)
        AND (CAST(:states AS text[]) = '{}' OR state = ANY(CAST(:states AS text[])))
    ORDER BY id DESC LIMIT :limit
    """
)
REPLAY = text(
    """
    UPDATE webhook_deliveries SET state = 'pending', attempt_count = 0,
        next_attempt_time = clock_timestamp()
    WHERE tenant = :tenant AND (:webhook_id = '' OR webhook_id = :webhook_id)
        AND CASE WHEN CAST(:ids AS bigint[]) = '{}' THEN state = 'failed'
            ELSE id = ANY(CAST(:ids AS bigint[])) END
    """
)
# No tenant's are behind more than those of others that are as far up in their own line.
DUE = text(
    """
    SELECT d.*, w.url, w.secret_name FROM (
        SELECT *, row_number() OVER (PARTITION BY tenant ORDER BY place, id) AS turn FROM (
            SELECT *, row_number() OVER (PARTITION BY tenant, webhook_id ORDER BY id) AS place
            FROM webhook_deliveries
            WHERE state = 'pending' AND next_attempt_time <= clock_timestamp()
                AND id <> ALL(CAST(:under_way AS bigint[]))
        ) AS of_webhook WHERE place <= :of_receiver
    ) AS d JOIN webhooks w ON w.tenant = d.tenant AND w.id = d.webhook_id
    WHERE d.turn <= :of_tenant ORDER BY d.turn, d.id LIMIT :limit
    """
)
NOTE = text(
    """
    UPDATE webhook_deliveries SET attempt_count = attempt_count + 1,
        last_status_code = :status_code, last_error = :error, state = :state,
        next_attempt_time = clock_timestamp() + make_interval(secs => :wait_s)
    WHERE id = :id AND state = 'pending'
    """
)
FORGET = text(
    "DELETE FROM webhook_deliveries WHERE create_time < now() - make_interval(days => 30)"
)


async def add_event(connection: AsyncConnection, event: Event) -> None:
    """Adds an event for the tenant's webhooks and stream, in the transaction of its cause."""
    await connection.execute(ADD, event_values(event))


class WebhookStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def subscribers(self, event_type: EventType) -> Sequence[tuple[str, datetime]]:
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(TENANTS, {"event_type": event_type.value})
            return [(row.tenant, row.since) for row in rows]

    async def add_past_event(self, event: Event, time: datetime) -> None:
        """Adds an event of another service with its time. Repeating it changes nothing."""
        async with transaction(self._engine) as connection:
            await connection.execute(ADD, event_values(event, time))

    async def put(self, tenant: str, webhook: Webhook, maximum: int) -> Webhook | None:
        values = {
            "tenant": tenant,
            "id": webhook.id,
            "url": webhook.url,
            "event_types": [each.value for each in webhook.event_types],
            "secret_name": webhook.secret_name,
            "created_by": webhook.created_by,
        }
        async with transaction(self._engine) as connection:
            await connection.execute(LOCK, {"tenant": tenant})
            others = {"tenant": tenant, "id": webhook.id}
            if (await connection.execute(OTHERS, others)).scalar_one() >= maximum:
                return None
            return _webhook((await connection.execute(PUT, values)).one())

    async def list(self, tenant: str, after: str, limit: int) -> Sequence[Webhook]:
        values = {"tenant": tenant, "after": after, "limit": limit}
        async with autocommit(self._engine) as connection:
            return [_webhook(row) for row in await connection.execute(LIST, values)]

    async def delete(self, tenant: str, webhook_id: str) -> bool:
        async with transaction(self._engine) as connection:
            deleted = await connection.execute(DELETE, {"tenant": tenant, "id": webhook_id})
            return bool(deleted.rowcount)

    async def deliveries(
        self,
        tenant: str,
        webhook_id: str,
        states: Sequence[DeliveryState],
        before: int,
        limit: int,
    ) -> Sequence[Delivery]:
        values = {
            "tenant": tenant,
            "webhook_id": webhook_id,
            "states": [state.value for state in states],
            "before": before,
            "limit": limit,
        }
        async with autocommit(self._engine) as connection:
            return [_delivery(row) for row in await connection.execute(DELIVERIES, values)]

    async def replay(self, tenant: str, webhook_id: str, ids: Sequence[int]) -> int:
        values = {"tenant": tenant, "webhook_id": webhook_id, "ids": [*ids]}
        async with transaction(self._engine) as connection:
            return (await connection.execute(REPLAY, values)).rowcount

    async def due(
        self, under_way: Sequence[int], limit: int, of_tenant: int, of_receiver: int
    ) -> Sequence[DueDelivery]:
        values = {
            "under_way": [*under_way],
            "limit": limit,
            "of_tenant": of_tenant,
            "of_receiver": of_receiver,
        }
        async with autocommit(self._engine) as connection:
            rows = (await connection.execute(DUE, values)).all()
        return [
            DueDelivery(
                row.id,
                row.tenant,
                row.url,
                row.secret_name,
                row.message_id,
                row.body,
                row.attempt_count,
            )
            for row in rows
        ]

    async def note(
        self, delivery_id: int, attempt: Attempt, state: DeliveryState, wait_s: float
    ) -> None:
        values = {
            "id": delivery_id,
            "status_code": attempt.status_code,
            "error": attempt.error,
            "state": state.value,
            "wait_s": wait_s,
        }
        async with transaction(self._engine) as connection:
            await connection.execute(NOTE, values)

    async def forget(self) -> None:
        async with transaction(self._engine) as connection:
            await connection.execute(FORGET)


def event_values(event: Event, time: datetime | None = None) -> dict[str, object]:
    return {
        "tenant": event.tenant,
        "event_type": event.type.value,
        "message_id": event.message_id,
        "event_body": event.body,
        "time": time,
    }


def _webhook(row: Row[tuple[object, ...]]) -> Webhook:
    return Webhook(
        row.id,
        row.url,
        tuple(EventType(each) for each in row.event_types),
        row.secret_name,
        row.created_by,
        row.create_time,
    )


def _delivery(row: Row[tuple[object, ...]]) -> Delivery:
    return Delivery(
        id=row.id,
        webhook_id=row.webhook_id,
        message_id=row.message_id,
        event_type=EventType(row.event_type),
        body=row.body,
        state=DeliveryState(row.state),
        attempt_count=row.attempt_count,
        next_attempt_time=row.next_attempt_time,
        last_status_code=row.last_status_code,
        last_error=row.last_error,
        create_time=row.create_time,
    )


LATEST = text("SELECT version FROM promotions ORDER BY id DESC LIMIT 1")
SEEN = text("INSERT INTO promotions (version) VALUES (:version) RETURNING id")


class PromotionStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def latest(self) -> str | None:
        """Returns the last version; None before the first poll, "" where none was promoted."""
        async with autocommit(self._engine) as connection:
            found: str | None = (await connection.execute(LATEST)).scalar_one_or_none()
        return found

    async def seen(self, version: str, previous: str, tenants: Iterable[str]) -> None:
        async with transaction(self._engine) as connection:
            promotion = (await connection.execute(SEEN, {"version": version})).scalar_one()
            for tenant in tenants:
                event = version_promoted(tenant, promotion, version, previous)
                await add_event(connection, event)
