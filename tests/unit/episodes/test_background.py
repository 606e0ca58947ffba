import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from opentelemetry.metrics import CallbackOptions, Observation

from episodes.models import OutboxRecord
from episodes.publication.relay import BATCH, BATCH_BYTES_MAX, Relay
from episodes.publication.store_outbox import OutboxStore, PendingRecord
from episodes.queue.metrics import BacklogMetrics
from episodes.webhooks.models import Attempt, DueDelivery
from episodes.webhooks.sender import WebhookSender
from podium_kit import telemetry
from podium_kit.postgres.engine import DatabaseUnavailable
from podium_kit.postgres.leadership import Leadership
from podium_kit.rpc.errors import DependencyAway
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


class Leading(Leadership):
    def __init__(self) -> None: ...

    async def held(self) -> bool:
        return True


@pytest.mark.parametrize("more", [True, False])
async def test_a_record_is_published_once_it_is_announced(
    monkeypatch: pytest.MonkeyPatch, *, more: bool
) -> None:
    monkeypatch.setattr("episodes.publication.relay.POLL_INTERVAL_S", 3600.0)
    outbox = OneRecord(more)
    relay = Relay(outbox, Taking(), "trajectories")
    leading = asyncio.create_task(relay.lead(Leading()))
    await asyncio.sleep(0)
    assert not outbox.published
    relay.notify()
    await leading
    assert outbox.published == [(7, 0, 0)]
    waiting = asyncio.create_task(relay.lead(Leading()))
    # Others were left over, or none were.
    done, _ = await asyncio.wait({waiting}, timeout=None if more else 0)
    assert bool(done) is more
    waiting.cancel()


class Deliveries:
    """Two that are due: what became of the first cannot be noted, the second's receiver is slow."""

    def __init__(self) -> None:
        self.sent: Counter[int] = Counter()
        self.noted: set[int] = set()
        self.gate = asyncio.Event()

    async def due(self, under_way: list[int], *_: int) -> list[DueDelivery]:
        return [
            DueDelivery(id, "acme", "https://acme.example", "key", f"m{id}", "{}", 0)
            for id in (1, 2)
            if id not in self.noted and id not in under_way
        ]

    async def deliver(self, delivery: DueDelivery) -> Attempt:
        self.sent[delivery.id] += 1
        if delivery.id == 2:
            await self.gate.wait()
        return Attempt(200, "")

    async def note(self, id: int, *_: object) -> None:
        if id == 1 and self.sent[1] == 1:
            raise DatabaseUnavailable
        self.noted.add(id)


async def test_what_is_being_delivered_is_not_sent_again_beside_it() -> None:
    deliveries: Any = Deliveries()
    sender = WebhookSender(deliveries, deliveries)
    asyncio.get_running_loop().call_later(0.1, deliveries.gate.set)
    with pytest.raises(DatabaseUnavailable):
        await sender.send_due()
    while await sender.send_due():
        pass
    assert deliveries.noted == {1, 2}
    assert deliveries.sent == {1: 2, 2: 1}


class Flood:
    """Two thousand of one tenant to receivers that never answer, and one of another, later."""

    def __init__(self) -> None:
        self.delivered = asyncio.Event()
        self.hanging: Counter[str] = Counter()
        self.banks: list[DueDelivery] = []
        self.flooded = asyncio.Event()

    async def due(
        self, under_way: list[int], limit: int, of_tenant: int, of_receiver: int
    ) -> list[DueDelivery]:
        urls = (f"https://evil.example/{at % 20}" for at in range(2000))
        evils = [
            DueDelivery(id, "evil", url, "key", f"m{id}", "{}", 0) for id, url in enumerate(urls)
        ]
        left = [each for each in (*evils, *self.banks) if each.id not in under_way]
        return left[:limit] if not self.banks else [*self.banks, *left[:limit]]

    async def deliver(self, delivery: DueDelivery) -> Attempt:
        if delivery.tenant == "evil":
            self.hanging[delivery.url] += 1
            self.flooded.set()
            await asyncio.Event().wait()
        return Attempt(200, "")

    async def note(self, id: int, *_: object) -> None:
        self.banks = []
        self.delivered.set()


async def test_slow_receivers_of_one_tenant_hold_up_no_other() -> None:
    flood: Any = Flood()
    sender = WebhookSender(flood, flood)

    async def send() -> None:
        while await sender.send_due():
            pass

    sending = asyncio.create_task(send())
    await flood.flooded.wait()
    flood.banks = [DueDelivery(5000, "bank", "https://bank.example", "key", "m", "{}", 0)]
    await flood.delivered.wait()
    sending.cancel()
    await asyncio.wait({sending})
    assert sum(flood.hanging.values()) == 20 and max(flood.hanging.values()) <= 5


Reported = Callable[[CallbackOptions], Iterable[Observation]]


class Gauges:
    def __init__(self) -> None:
        self._reported: dict[str, Reported] = {}

    def create_observable_gauge(
        self, name: str, callbacks: Sequence[Reported], **_: object
    ) -> None:
        [self._reported[name]] = callbacks

    def scraped(self) -> dict[str, float]:
        return {
            name: each.value
            for name, reported in self._reported.items()
            for each in reported(CallbackOptions())
        }


async def test_what_is_queued_is_reported_while_temporal_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gauges, away = Gauges(), True

    async def age_s() -> float:
        if away:
            raise DependencyAway
        return 2.0

    async def size() -> float:
        return 7.0

    monkeypatch.setattr(telemetry, "get_meter", lambda _: gauges)
    standing = BacklogMetrics(size, age_s, size)
    with pytest.raises(DependencyAway):
        await standing.poll()
    queued = {"podium.stream.outbox.age": 7.0, "podium.episodes.work.open": 7.0}
    assert gauges.scraped() == queued
    away = False
    await standing.poll()
    assert gauges.scraped() == {**queued, "podium.episodes.backlog.age": 2.0}
