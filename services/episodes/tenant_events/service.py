"""Follows the events of a tenant: reads what is stored, again and again."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from episodes.errors import TooManyEventStreams
from episodes.tenant_events.models import HEARTBEAT, OPENED, EventPosition, StreamedEvent
from episodes.tenant_events.store import TenantEventStore
from episodes.webhooks.models import EventType
from podium_kit.rpc.access import access_of
from podium_kit.rpc.identity import Identity, current_identity

INTERVAL_S = 1.0
HEARTBEAT_INTERVAL = timedelta(seconds=15)
# Of a tenant in this process.
STREAMS_MAX = 100
LIST_BUDGETS = "podium.ledger.v1.BudgetService/ListAlerts"
# Alerts are polled while a client follows them, from this long ago on.
ALERTS_SINCE = timedelta(minutes=30)


class TenantEvents:
    def __init__(self, store: TenantEventStore) -> None:
        self._store = store
        self._open: Counter[str] = Counter()

    async def followed(self) -> Sequence[tuple[str, datetime]]:
        """Returns the tenants that have streams here, and since when their alerts matter."""
        since = datetime.now(UTC) - ALERTS_SINCE
        return [(tenant, since) for tenant, count in self._open.items() if count]

    async def follow(self, after: str) -> AsyncIterator[StreamedEvent]:
        """Yields events after a position, or from now on. Raises TooManyEventStreams."""
        reader = current_identity()
        if self._open[reader.tenant] >= STREAMS_MAX:
            raise TooManyEventStreams(STREAMS_MAX)
        self._open[reader.tenant] += 1
        try:
            async for event in self._events(reader, after):
                yield event
        finally:
            self._open[reader.tenant] -= 1

    async def _events(self, reader: Identity, after: str) -> AsyncIterator[StreamedEvent]:
        newest = await self._store.newest()
        begin = EventPosition.of(after) if after else newest
        if missed := not begin.is_stored(newest):
            begin = newest
        position = replace(begin, seen_time=newest.seen_time)
        yield StreamedEvent(position, OPENED, "{}", newest.seen_time, events_missed=missed)
        while True:
            # Read first: what it lacks is of a later time.
            asked_time = datetime.now(UTC)
            events = await self._store.after(reader.tenant, position)
            for event in events:
                position = event.position
                if _may_follow(reader, event):
                    yield event
            if not events:
                if asked_time - position.seen_time >= HEARTBEAT_INTERVAL:
                    position = replace(position, seen_time=asked_time)
                    yield StreamedEvent(position, HEARTBEAT, "{}", asked_time)
                await asyncio.sleep(INTERVAL_S)


def _may_follow(reader: Identity, event: StreamedEvent) -> bool:
    if event.type != EventType.BUDGET_ALERT:
        return True
    return any(reader.may(scope) for scope in access_of(LIST_BUDGETS).scopes)
