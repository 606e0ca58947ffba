import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from callers import client_channel, code_of, make_identity
from episodes.webhooks.polled_events import TENANT
from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import Platform
from integration.episodes.test_access import asked
from podium.common.v1 import money_pb2
from podium.episodes.v1 import webhook_service_pb2 as pb
from podium.episodes.v1.webhook_service_pb2_grpc import WebhookServiceStub
from podium.ledger.v1 import alert_pb2
from podium.registry.v1 import tool_pb2
from podium_kit.rpc.identity import Scope
from podium_kit.wire import timestamp_to_proto

if TYPE_CHECKING:
    from podium.episodes.v1.webhook_service_pb2_grpc import WebhookServiceAsyncStub

URL = "https://example.org/hook"
SECRET = tool_pb2.SecretRef(name="hooks")
PENDING, DELIVERED = pb.WEBHOOK_DELIVERY_STATE_PENDING, pb.WEBHOOK_DELIVERY_STATE_DELIVERED
FAILED = pb.WEBHOOK_DELIVERY_STATE_FAILED


@asynccontextmanager
async def webhooks(
    platform: Platform, tenant: str = "", scope: Scope = Scope.TENANT_ADMIN
) -> AsyncIterator["WebhookServiceAsyncStub"]:
    identity = make_identity(tenant or platform.tenant, "ada", scopes=[scope])
    async with client_channel(platform.port, identity, platform.keys) as channel:
        yield WebhookServiceStub(channel)


def hook(webhook_id: str = "all", url: str = URL, **fields: Any) -> pb.PutWebhookRequest:
    return pb.PutWebhookRequest(id=webhook_id, url=url, secret=SECRET, **fields)


async def delivered(platform: Platform, url: str, count: int = 1) -> list[Any]:
    while True:
        sent = [each for each in platform.neighbours.adapters.delivered if each.url == url]
        if len(sent) >= count:
            return [json.loads(each.body_json) for each in sent]
        await asyncio.sleep(0.05)


async def in_state(stub: "WebhookServiceAsyncStub", state: Any) -> pb.WebhookDelivery:
    while True:
        found = (await stub.ListWebhookDeliveries(pb.ListWebhookDeliveriesRequest())).deliveries
        if found and found[0].state == state and found[0].attempt_count:
            return found[0]
        await asyncio.sleep(0.05)


async def test_the_end_of_an_episode_is_told_once_without_its_words(platform: Platform) -> None:
    url = f"{URL}/{platform.tenant}"
    async with webhooks(platform) as stub:
        await stub.PutWebhook(hook(url=url))
        episode_id = (await platform.run()).id
        (body,) = await delivered(platform, url)
        delivery = await in_state(stub, DELIVERED)
    assert body["type"] == "episode.ended"
    assert body["data"]["episode_id"] == episode_id
    assert body["data"]["stop_reason"] == "answered"
    assert body["data"]["cost"]["currency_code"] == "USD"
    assert set(body["data"]) == {
        *("episode_id", "stop_reason", "turn_count", "tool_call_count"),
        *("cost", "unpriced_call_count"),
    }
    assert delivery.message_id == f"episode-ended-{episode_id}"
    assert (delivery.attempt_count, delivery.last_status_code) == (1, 200)
    assert json.loads(delivery.body_json) == body


async def test_a_call_that_waits_for_a_person_is_told(platform: Platform) -> None:
    url = f"{URL}/approvals/{platform.tenant}"
    platform.neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    platform.neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer("paid"))
    wanted = [pb.WEBHOOK_EVENT_TYPE_APPROVAL_REQUESTED]
    async with webhooks(platform) as stub, platform.client() as client:
        await stub.PutWebhook(hook(url=url, event_types=wanted))
        episode = await asked(client)
        (body,) = await delivered(platform, url)
    assert body["type"] == "approval.requested"
    data = body["data"]
    assert (data["episode_id"], data["turn"], data["call_index"]) == (episode.id, 1, 0)
    assert data["tool_name"] == "pay"


async def test_a_record_that_is_kept_aside_is_told(platform: Platform) -> None:
    url = f"{URL}/letters/{platform.tenant}"
    platform.neighbours.orchestrator.logprobs = [float("nan"), -0.2]
    wanted = [pb.WEBHOOK_EVENT_TYPE_RECORD_DEAD_LETTERED]
    async with webhooks(platform) as stub:
        await stub.PutWebhook(hook(url=url, event_types=wanted))
        await platform.run()
        (body,) = await delivered(platform, url)
    assert body["type"] == "record.dead_lettered"
    assert "logprob" in body["data"]["reason"]


async def test_a_receiver_that_fails_is_asked_again_and_later_replayed(platform: Platform) -> None:
    url = f"{URL}/failing/{platform.tenant}"
    adapters = platform.neighbours.adapters
    adapters.statuses[url] = 500
    async with webhooks(platform) as stub:
        await stub.PutWebhook(hook(url=url))
        await platform.run()
        pending = await in_state(stub, PENDING)
        assert "status 500" in pending.last_error
        assert pending.next_attempt_time.ToMilliseconds() > pending.create_time.ToMilliseconds()
        adapters.statuses[url] = 0
        await due_now(platform)
        while pending.attempt_count < 2:
            pending = await in_state(stub, PENDING)
        assert pending.last_error == "nobody is there"
        adapters.statuses[url] = 410
        await due_now(platform)
        failed = await in_state(stub, FAILED)
        assert not failed.HasField("next_attempt_time")
        adapters.statuses[url] = 200
        replayed = await stub.ReplayWebhookDeliveries(pb.ReplayWebhookDeliveriesRequest())
        assert replayed.count == 1
        again = await in_state(stub, DELIVERED)
        assert (again.id, again.attempt_count, again.last_error) == (failed.id, 1, "")
        request = pb.ReplayWebhookDeliveriesRequest(delivery_ids=[again.id])
        assert (await stub.ReplayWebhookDeliveries(request)).count == 1
        await delivered(platform, url, count=5)
    ids = {each.message_id for each in adapters.delivered if each.url == url}
    assert len(ids) == 1


async def due_now(platform: Platform) -> None:
    engine = create_async_engine(platform.database_url)
    statement = "UPDATE webhook_deliveries SET next_attempt_time = now() WHERE tenant = :tenant"
    async with engine.begin() as connection:
        await connection.execute(text(statement), {"tenant": platform.tenant})
    await engine.dispose()


async def test_webhooks_are_a_tenants_own(platform: Platform) -> None:
    async with webhooks(platform) as stub, webhooks(platform, "rival") as rival:
        first = (await stub.PutWebhook(hook())).webhook
        changed = (await stub.PutWebhook(hook(url=f"{URL}/2"))).webhook
        assert (first.url, changed.url, changed.created_by) == (URL, f"{URL}/2", "ada")
        await stub.PutWebhook(hook("second"))
        page = await stub.ListWebhooks(pb.ListWebhooksRequest(page_size=1))
        rest = await stub.ListWebhooks(pb.ListWebhooksRequest(page_token=page.next_page_token))
        assert [each.id for each in (*page.webhooks, *rest.webhooks)] == ["all", "second"]
        assert not (await rival.ListWebhooks(pb.ListWebhooksRequest())).webhooks
        await platform.run()
        mine = await in_state(stub, DELIVERED)
        listed = await rival.ListWebhookDeliveries(pb.ListWebhookDeliveriesRequest())
        assert not listed.deliveries
        for attempt in (
            rival.DeleteWebhook(pb.DeleteWebhookRequest(id="all")),
            rival.ReplayWebhookDeliveries(
                pb.ReplayWebhookDeliveriesRequest(delivery_ids=[mine.id])
            ),
        ):
            assert await code_of(attempt) is grpc.StatusCode.NOT_FOUND
        await stub.DeleteWebhook(pb.DeleteWebhookRequest(id="all"))
        left = (await stub.ListWebhookDeliveries(pb.ListWebhookDeliveriesRequest())).deliveries
        assert {each.webhook_id for each in left} == {"second"}


async def test_bad_requests_name_field_and_fix(platform: Platform) -> None:
    cases = (
        (hook("Bad Id"), "id is 'Bad Id'; give"),
        (hook(url="ftp://example.org"), "url is .* give an http or https URL"),
        (hook(url="https://user:word@example.org"), "url must be"),
        (hook(url=f"https://example.org/{'x' * 2_000}"), "at most 2000"),
        (hook(event_types=[0]), "event_types holds"),
        (pb.PutWebhookRequest(id="a", url=URL), "secret is unset"),
    )
    async with webhooks(platform) as stub:
        for request, words in cases:
            with pytest.raises(grpc.aio.AioRpcError, match=words) as caught:
                await stub.PutWebhook(request)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        for number in range(20):
            await stub.PutWebhook(hook(f"h{number}"))
        await stub.PutWebhook(hook("h3"))
        with pytest.raises(grpc.aio.AioRpcError, match="has 20 webhooks") as caught:
            await stub.PutWebhook(hook("one-more"))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    async with webhooks(platform, scope=Scope.EPISODES_RUN) as user:
        assert (
            await code_of(user.ListWebhooks(pb.ListWebhooksRequest()))
            is grpc.StatusCode.PERMISSION_DENIED
        )


def alert(budget_id: str, age_s: float) -> alert_pb2.BudgetAlert:
    usd = {"currency_code": "USD"}
    then = timestamp_to_proto(datetime.now(UTC) - timedelta(seconds=age_s))
    return alert_pb2.BudgetAlert(
        id=f"acme/{budget_id}/2026-11-01/0.40",
        budget_id=budget_id,
        window_start=then,
        soft_limit=money_pb2.Money(amount="0.40", **usd),
        posted=money_pb2.Money(amount="0.41", **usd),
        hard_limit=money_pb2.Money(amount="0.50", **usd),
        create_time=then,
    )


async def test_passed_limits_since_the_webhook_are_told_once(platform: Platform) -> None:
    url, ledger = f"{URL}/alerts/{platform.tenant}", platform.neighbours.ledger
    async with webhooks(platform) as stub:
        await stub.PutWebhook(hook(url=url, event_types=[pb.WEBHOOK_EVENT_TYPE_BUDGET_ALERT]))
        ledger.alerts = [alert("second", 0), alert("first", 0), alert("too-old", 3_600)]
        bodies = await delivered(platform, url, count=2)
        ledger.alerts.insert(0, alert("third", 0))
        bodies = await delivered(platform, url, count=3)
        found = await stub.ListWebhookDeliveries(pb.ListWebhookDeliveriesRequest())
    assert {body["data"]["budget_id"] for body in bodies} == {"first", "second", "third"}
    assert bodies[0]["type"] == "budget.alert"
    assert bodies[0]["data"]["posted"] == {"currency_code": "USD", "amount": "0.41"}
    assert all("." not in each.message_id for each in found.deliveries)
    assert len(found.deliveries) == 3


async def test_another_promoted_version_is_told_once_and_the_first_sight_not(
    platform: Platform,
) -> None:
    url = f"{URL}/versions/{platform.tenant}"
    # Versions are everybody's, so the worker asks for no tenant that is here.
    orchestrator = platform.tenants.add(TENANT).orchestrator
    wanted = [pb.WEBHOOK_EVENT_TYPE_VERSION_PROMOTED]
    async with webhooks(platform) as stub:
        await stub.PutWebhook(hook(url=url, event_types=wanted))
        await seen(platform, "")
        for version in ("policy-a-v1", "policy-a-v2", "", "policy-a-v1"):
            orchestrator.promoted = version
            await seen(platform, version or "policy-a-v2")
        sent = await delivered(platform, url, count=3)
    assert [body["type"] for body in sent] == ["version.promoted"] * 3
    told = [(body["data"]["version"], body["data"]["previous"]) for body in sent]
    assert told == [
        ("policy-a-v1", ""),
        ("policy-a-v2", "policy-a-v1"),
        ("policy-a-v1", "policy-a-v2"),
    ]


async def seen(platform: Platform, version: str) -> None:
    engine = create_async_engine(platform.database_url)
    latest = text("SELECT version FROM promotions ORDER BY id DESC LIMIT 1")
    while True:
        async with engine.connect() as connection:
            if (await connection.execute(latest)).scalar_one_or_none() == version:
                break
        await asyncio.sleep(0.2)
    await engine.dispose()
