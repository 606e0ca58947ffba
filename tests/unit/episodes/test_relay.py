from collections.abc import Sequence

import pytest

from episodes.models import OutboxRecord
from episodes.publication.relay import BATCH, BATCH_BYTES_MAX, Relay
from episodes.publication.store_outbox import OutboxStore, PendingRecord
from podium_kit.stream import Place, StreamRecord
from podium_kit.stream.clients import Producer


class OneRecord(OutboxStore):
    def __init__(self, more: bool) -> None:
        self.more = more
        self.asked: list[tuple[int, int]] = []
        self.published: list[tuple[int, int, int]] = []

    async def pending(self, limit: int, batch_bytes: int) -> tuple[list[PendingRecord], bool]:
        self.asked.append((limit, batch_bytes))
        return [PendingRecord(7, OutboxRecord("r", "trajectory", "acme", "g", b"", {}))], self.more

    async def mark_published(self, placed: Sequence[tuple[int, int, int]]) -> None:
        self.published += placed


class Taking(Producer):
    def __init__(self) -> None: ...

    async def send(self, topic: str, records: Sequence[StreamRecord]) -> list[Place]:  # type: ignore[override]
        return [Place(0, number) for number, _ in enumerate(records)]


@pytest.mark.parametrize("more", [True, False])
async def test_a_batch_that_its_size_cut_short_is_not_the_last(more: bool) -> None:
    outbox = OneRecord(more)
    assert await Relay(outbox, Taking(), "trajectories").relay() is more
    assert outbox.asked == [(BATCH, BATCH_BYTES_MAX)]
    assert outbox.published == [(7, 0, 0)]
