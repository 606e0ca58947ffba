"""A round of deliveries ends as a whole, whatever becomes of one of them."""

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

    async def due(self, *_: int) -> list[DueDelivery]:
        return [
            DueDelivery(id, "acme", "https://acme.example", "key", f"m{id}", "{}", 0)
            for id in (1, 2)
            if id not in self.noted
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
    await sender.send_due()
    assert deliveries.noted == {1, 2}
    assert deliveries.sent == {1: 2, 2: 1}
