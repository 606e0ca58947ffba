"""Publishes what the outbox owes, oldest first, from one worker at a time."""

import logging

from episodes.stream.records import InvalidTrajectory, stream_body, validate
from episodes.stream.store_outbox import OutboxStore, OwedRecord
from podium_kit.stream import Producer, StreamRecord

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.25
BATCH = 200


class Relay:
    """Moves owed records to the topic; one that may not go is dead-lettered."""

    def __init__(self, outbox: OutboxStore, producer: Producer, topic: str) -> None:
        self._outbox = outbox
        self._producer = producer
        self._topic = topic

    async def relay(self) -> bool:
        """Publishes one batch, whether there was one. One relay at a time keeps groups in order."""
        owed = await self._outbox.owed(BATCH)
        sendable = [entry for entry in owed if await self._is_valid(entry)]
        if sendable:
            places = await self._producer.send(self._topic, [_stream_record(e) for e in sendable])
            await self._outbox.mark_published(
                [(entry.row_id, *place) for entry, place in zip(sendable, places, strict=True)]
            )
        return bool(owed)

    async def _is_valid(self, entry: OwedRecord) -> bool:
        try:
            validate(entry.record.body)
        except InvalidTrajectory as error:
            log.warning("record %s is dead-lettered: %s", entry.record.record_id, error)
            await self._outbox.mark_dead(entry.row_id, error.message)
            return False
        return True


def _stream_record(entry: OwedRecord) -> StreamRecord:
    return StreamRecord(entry.record.group_id, stream_body(entry.record), entry.record.headers)
