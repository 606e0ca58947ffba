"""Compares the topic with the outbox and publishes again what the broker lost.

Acknowledged is not stored: only reading the topic back finds records that a broker acknowledged
and lost.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from episodes.publication.store_outbox import OutboxStore, PublishedRecord
from episodes.publication.topic_kafka import TopicReader

log = logging.getLogger(__name__)

BATCH = 5_000
# How far back an empty topic is filled again; the topic's retention is longer.
WINDOW_S = 24 * 3600.0


@dataclass(frozen=True)
class Findings:
    present: int
    lost: int


class Reconciler:
    """Reads back every acknowledged record once, and all of them when the topic shrank."""

    def __init__(self, outbox: OutboxStore, topic: TopicReader) -> None:
        self._outbox = outbox
        self._topic = topic

    async def reconcile(self) -> Findings:
        """Checks every record; one that the topic lacks or holds changed is requeued."""
        await self._unconfirm_if_shrunk()
        present = lost = 0
        while records := await self._outbox.unconfirmed(BATCH):
            found = await self._checked(records)
            present, lost = present + found.present, lost + found.lost
            if len(records) < BATCH:
                break
        return Findings(present, lost)

    async def _checked(self, records: Sequence[PublishedRecord]) -> Findings:
        # After the records: what the relay publishes meanwhile must not look lost.
        ends = await asyncio.to_thread(self._topic.end_offsets)
        found = await asyncio.to_thread(self._topic.digests, _first_offsets(records), ends)
        present = [entry for entry in records if found.get(entry.record_id) == entry.digest]
        lost = [entry for entry in records if found.get(entry.record_id) != entry.digest]
        await self._outbox.confirm([entry.row_id for entry in present])
        if lost:
            log.warning("the topic lost %d records; they are queued again", len(lost))
            await self._outbox.requeue([entry.row_id for entry in lost])
        return Findings(len(present), len(lost))

    async def _unconfirm_if_shrunk(self) -> None:
        high_water = await self._outbox.high_water(WINDOW_S)
        ends = await asyncio.to_thread(self._topic.end_offsets)
        if any(offset >= ends.get(partition, 0) for partition, offset in high_water.items()):
            log.warning("the topic ends before records that were on it; checking all of them")
            await self._outbox.unconfirm(WINDOW_S)


def _first_offsets(records: Sequence[PublishedRecord]) -> dict[int, int]:
    first: dict[int, int] = {}
    for entry in records:
        offset = max(entry.offset, 0)
        first[entry.partition] = min(first.get(entry.partition, offset), offset)
    return first
