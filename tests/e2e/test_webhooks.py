import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal

import pytest
import pytest_asyncio
from aiohttp import web

from e2e.conftest import WEBHOOK_SECRET, WholePlatform
from podium_client import AsyncPodium, BadRequest, WebhookEvent, models, verify_webhook


class Receiver:
    """An application's server; it is away at first, and verifies what it gets."""

    def __init__(self) -> None:
        self.events: list[WebhookEvent] = []
        self.away = True
        self.url = ""

    def of(self, message_id: str) -> list[WebhookEvent]:
        return [event for event in self.events if event.id == message_id]

    async def receive(self, request: web.Request) -> web.Response:
        body = await request.read()
        if self.away:
            return web.Response(status=503)
        self.events.append(verify_webhook(body, request.headers, WEBHOOK_SECRET))
        return web.Response(status=204)


@pytest_asyncio.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver, app = Receiver(), web.Application()
    app.router.add_post("/hook", receiver.receive)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    yield receiver
    await runner.cleanup()


async def test_the_end_of_an_episode_arrives_signed_after_the_receiver_was_away(
    whole: WholePlatform, receiver: Receiver
) -> None:
    connection = whole.connection
    async with AsyncPodium(connection.gateway_url, connection.api_key) as podium:
        await podium.webhooks.put("e2e", receiver.url, "hooks", event_types=["episode_ended"])
        episode = await podium.episodes.run("what is 6 x 7?", tools=["calculator"])
        message = f"episode-ended-{episode.id}"

        async def deliveries() -> list[models.WebhookDelivery]:
            # An episode that another test of this tenant began may end now, too.
            found = await podium.webhooks.deliveries("e2e").all()
            return [each for each in found if each.message_id == message]

        while not [each for each in await deliveries() if each.attempt_count]:
            await asyncio.sleep(0.2)
        receiver.away = False
        # The next attempt comes after five seconds.
        while not receiver.of(message):
            await asyncio.sleep(0.2)
        (event,) = receiver.of(message)
        assert event.type == "episode.ended"
        assert event.data["episode_id"] == episode.id
        assert episode.cost is not None
        assert event.data["cost"]["currency_code"] == "USD"
        while not [each for each in await deliveries() if each.last_status_code == 204]:
            await asyncio.sleep(0.2)
        (delivery,) = await deliveries()
        assert delivery.attempt_count > 1
        assert await podium.webhooks.replay([delivery.id]) == 1
        while len(receiver.of(message)) < 2:
            await asyncio.sleep(0.2)
        assert receiver.of(message)[1] == event
        await podium.webhooks.delete("e2e")
        assert not await podium.webhooks.deliveries("e2e").all()
        with pytest.raises(BadRequest, match=r"secret\.name must name"):
            await podium.webhooks.put("e2e", receiver.url, "")


async def test_spending_past_a_soft_limit_is_told_once(
    whole: WholePlatform, receiver: Receiver
) -> None:
    receiver.away = False
    connection = whole.connection
    async with AsyncPodium(connection.gateway_url, connection.api_key) as podium:
        await podium.webhooks.put("alerts", receiver.url, "hooks", event_types=["budget_alert"])
        await podium.budgets.create("alerting", "1000", window="total", alert_at=["0.000000000001"])
        await podium.episodes.run("what is 6 x 7?", tools=["calculator"])
        while not receiver.events:
            await asyncio.sleep(0.2)
        (alert,) = await podium.budgets.alerts("alerting").all()
        # The ledger is asked again meanwhile: its answer is known.
        second = models.Money(currency_code="USD", amount=Decimal("0.000000000002"))
        await podium.budgets.update("alerting", alert_at=[second])
        while len(receiver.events) < 2:
            await asyncio.sleep(0.2)
        await podium.budgets.close("alerting")
        await podium.webhooks.delete("alerts")
    assert [event.type for event in receiver.events] == ["budget.alert"] * 2
    first, later = (event.data for event in receiver.events)
    assert alert.soft_limit is not None and alert.posted is not None
    assert first["budget_id"] == later["budget_id"] == "alerting"
    assert Decimal(first["soft_limit"]["amount"]) == alert.soft_limit.amount
    assert Decimal(first["posted"]["amount"]) == alert.posted.amount > 0
    assert Decimal(later["soft_limit"]["amount"]) == second.amount
