"""Publishes what the outbox owes, oldest first, from one worker at a time."""

import asyncio
import logging

from episodes.store_locks import Leadership
from episodes.stream.records import InvalidTrajectory, stream_body, validate
from episodes.stream.store_outbox import OutboxStore, OwedRecord
from podium_kit.rpc.errors import message_of
from podium_kit.stream import Producer, StreamRecord

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.25
RETRY_INTERVAL_S = 1.0
BATCH = 200


class Relay:
    """Moves owed records to the topic; a record that may not go is kept aside."""

    def __init__(
        self, outbox: OutboxStore, producer: Producer, leadership: Leadership, topic: str
    ) -> None:
        self._outbox = outbox
        self._producer = producer
        self._leadership = leadership
        self._topic = topic

    async def run(self) -> None:
        """Relays until cancelled; only the leader does, so groups stay in order."""
        while True:
            try:
                if not await self._leadership.held():
                    await asyncio.sleep(RETRY_INTERVAL_S)
                elif not await self.relay_once():
                    await asyncio.sleep(POLL_INTERVAL_S)
            except Exception as error:  # noqa: BLE001  the loop outlives broker and database
                log.warning("relay failed, will retry: %s", message_of(error))
                await asyncio.sleep(RETRY_INTERVAL_S)

    async def relay_once(self) -> int:
        """Publishes one batch; how many records were owed."""
        owed = await self._outbox.owed(BATCH)
        sendable = [entry for entry in owed if await self._is_valid(entry)]
        if sendable:
            places = await self._producer.send(self._topic, [_stream_record(e) for e in sendable])
            await self._outbox.mark_published(
                [(entry.row_id, *place) for entry, place in zip(sendable, places, strict=True)]
            )
        return len(owed)

    async def _is_valid(self, entry: OwedRecord) -> bool:
        try:
            validate(entry.record.body)
        except InvalidTrajectory as error:
            log.warning("record %s is kept aside: %s", entry.record.record_id, error)
            await self._outbox.mark_dead(entry.row_id, error.message)
            return False
        return True


def _stream_record(entry: OwedRecord) -> StreamRecord:
    return StreamRecord(entry.record.group_id, stream_body(entry.record), entry.record.headers)
