"""The events of a tenant, over any number of broken calls to the episodes service."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import grpc

from gateway.clients import (
    BROKEN,
    WATCH_PATIENCE_S,
    WATCH_PAUSE_S,
    WATCH_RENEW_S,
    upstream_error,
)
from podium.episodes.v1 import tenant_event_service_pb2 as pb
from podium.episodes.v1.tenant_event_service_pb2_grpc import TenantEventServiceStub
from podium_kit.wire import json_values


@dataclass(frozen=True)
class TenantEventText:
    position: str
    # Its name in the contract, for example "episode_ended".
    kind: str
    json: str


class TenantEventsClient:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = TenantEventServiceStub(channel)

    async def watch(self, after: str) -> AsyncIterator[TenantEventText]:
        """Events after the position for WATCH_RENEW_S: who continues is authenticated again then.

        The first is that the stream is open. Raises after a minute without an answer.
        """
        position, opened = after, False
        ends_at = seen_at = time.monotonic()
        ends_at += WATCH_RENEW_S
        while (remaining_s := ends_at - time.monotonic()) > 0:
            request = pb.WatchTenantEventsRequest(after=position)
            try:
                async for reply in self._stub.WatchTenantEvents(request, timeout=remaining_s):
                    event = reply.event
                    position, seen_at = event.position, time.monotonic()
                    again = opened and event.HasField("opened") and not event.opened.events_missed
                    if not again:
                        kind = event.WhichOneof("event") or "unknown"
                        yield TenantEventText(position, kind, json.dumps(json_values(event)))
                    opened = True
            except grpc.aio.AioRpcError as error:
                if opened and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                    return
                patient = opened and time.monotonic() - seen_at < WATCH_PATIENCE_S
                if error.code() not in BROKEN or not patient:
                    raise upstream_error(error) from error
            await asyncio.sleep(WATCH_PAUSE_S)
