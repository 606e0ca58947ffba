import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from episodes.publication.records import InvalidTrajectory, stream_body, validate
from episodes.publication.store_outbox import OutboxStore, PendingRecord
from podium_kit import telemetry
from podium_kit.postgres.leadership import Leadership
from podium_kit.stream import Place, Rejection, StreamRecord

if TYPE_CHECKING:
    from podium_kit.stream.clients import Producer

log = logging.getLogger(__name__)

_dead_letters = telemetry.get_meter(__name__).create_counter(
    "podium.stream.dead_letters", "{record}", "records that are not published, with the reason"
)

# Records that are added meanwhile are published together.
SPACING_S = 0.25
# A notification that is lost costs no more than this.
POLL_INTERVAL_S = 1.0
BATCH = 200
# A trajectory may have megabytes.
BATCH_BYTES_MAX = 16 * 1024 * 1024


class Relay:
    """Moves records to the topic; an invalid or rejected one is dead-lettered."""

    def __init__(self, outbox: OutboxStore, producer: "Producer", topic: str) -> None:
        self._outbox = outbox
        self._producer = producer
        self._topic = topic
        self._news = asyncio.Event()

    def notify(self, _: str = "") -> None:
        """Reports that a record was added."""
        self._news.set()

    async def lead(self, leadership: Leadership) -> object:
        """Waits for a record, POLL_INTERVAL_S at most, and relays if this process leads then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_INTERVAL_S):
                await self._news.wait()
        self._news.clear()
        return await leadership.lead(self.relay)

    async def relay(self) -> bool:
        """Publishes one batch, and returns whether more is pending.

        One relay at a time keeps groups in order.
        """
        pending, more = await self._outbox.pending(BATCH, BATCH_BYTES_MAX)
        sendable = [entry for entry in pending if await self._is_valid(entry)]
        if sendable:
            records = [entry.record for entry in sendable]
            sent = [
                StreamRecord(each.group_id, stream_body(each), each.headers) for each in records
            ]
            outcomes = await self._producer.send(self._topic, sent)
            await self._note(list(zip(sendable, outcomes, strict=True)))
        if more:
            self._news.set()
        return more

    async def close(self) -> None:
        await self._producer.close()

    async def _note(self, outcomes: Sequence[tuple[PendingRecord, Place | Rejection]]) -> None:
        await self._outbox.mark_published(
            [
                (entry.row_id, outcome.partition, outcome.offset)
                for entry, outcome in outcomes
                if isinstance(outcome, Place)
            ]
        )
        for entry, outcome in outcomes:
            if isinstance(outcome, Rejection):
                await self._dead_letter(entry, outcome.reason)

    async def _is_valid(self, entry: PendingRecord) -> bool:
        try:
            validate(entry.record.body)
        except InvalidTrajectory as error:
            await self._dead_letter(entry, error.message)
            return False
        return True

    async def _dead_letter(self, entry: PendingRecord, reason: str) -> None:
        log.error("record %s is dead-lettered: %s", entry.record.record_id, reason)
        await self._outbox.mark_dead(entry, reason)
        _dead_letters.add(1, {"podium.record.kind": entry.record.kind})
