import asyncio
from collections import Counter
from typing import Any

import pytest

from episodes.webhooks.models import Attempt, DueDelivery
from episodes.webhooks.sender import WebhookSender
from podium_kit.postgres.engine import DatabaseUnavailable


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
