from collections.abc import AsyncIterator
from typing import Any

import grpc

from episodes.tenant_events.convert import event_to_proto
from episodes.tenant_events.service import TenantEvents
from podium.episodes.v1 import tenant_event_service_pb2 as pb
from podium.episodes.v1.tenant_event_service_pb2_grpc import TenantEventServiceServicer

Context = grpc.aio.ServicerContext[Any, Any]


class TenantEventsServicer(TenantEventServiceServicer):
    def __init__(self, events: TenantEvents) -> None:
        self._events = events

    async def WatchTenantEvents(
        self, request: pb.WatchTenantEventsRequest, context: Context
    ) -> AsyncIterator[pb.WatchTenantEventsResponse]:
        async for event in self._events.follow(request.after):
            if (message := event_to_proto(event)) is not None:
                yield pb.WatchTenantEventsResponse(event=message)
