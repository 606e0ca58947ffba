"""The stream of a tenant's events: what it carries, who reads it, and that it is resumed."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import asyncpg
import grpc
import pytest

from callers import client_channel, make_identity
from episodes.tenant_events.models import EventPosition
from episodes.tenant_events.service import STREAMS_MAX
from episodes.tenant_events.store import TenantEventStore
from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import Platform, start, until_asked
from podium.common.v1 import money_pb2
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as episodes_pb
from podium.episodes.v1 import tenant_event_service_pb2 as pb
from podium.episodes.v1.tenant_event_service_pb2_grpc import TenantEventServiceStub
from podium.ledger.v1 import alert_pb2
from podium_kit.postgres.engine import open_engine
from podium_kit.rpc.identity import Scope
from podium_kit.wire import timestamp_to_proto

if TYPE_CHECKING:
    from podium.episodes.v1.tenant_event_service_pb2_grpc import TenantEventServiceAsyncStub

SCOPES = (Scope.EPISODES_RUN, Scope.CALLS_APPROVE)


@asynccontextmanager
async def stream(
    platform: Platform, *, scopes: Iterable[Scope] = SCOPES, tenant: str = ""
) -> AsyncIterator["TenantEventServiceAsyncStub"]:
    identity = make_identity(tenant or platform.tenant, "grace", scopes=scopes)
    async with client_channel(platform.port, identity, platform.keys) as channel:
        yield TenantEventServiceStub(channel)


async def until(
    watch: AsyncIterable[pb.WatchTenantEventsResponse], kind: str
) -> list[pb.TenantEvent]:
    """Returns the events up to the first of the kind."""
    found = []
    async for reply in watch:
        found.append(reply.event)
        if reply.event.HasField(kind):  # type: ignore[arg-type]
            return found
    raise AssertionError(f"the stream ended before {kind}")


def kinds(events: Iterable[pb.TenantEvent]) -> list[str | None]:
    return [event.WhichOneof("event") for event in events]


async def opened(
    stub: "TenantEventServiceAsyncStub", after: str = ""
) -> tuple[AsyncIterable[pb.WatchTenantEventsResponse], pb.TenantEvent]:
    watch = stub.WatchTenantEvents(pb.WatchTenantEventsRequest(after=after))
    [first] = await until(watch, "opened")
    return watch, first


async def test_beginnings_and_ends_of_episodes_are_streamed_without_their_words(
    platform: Platform,
) -> None:
    async with stream(platform) as stub:
        watch, _ = await opened(stub)
        episode = await platform.run("a task that no other user reads")
        begun, ended = await until(watch, "episode_ended")
    assert begun.episode_started.episode_id == ended.episode_ended.episode_id == episode.id
    assert begun.episode_started.started_by == "ada"
    assert ended.episode_ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert ended.episode_ended.cost == episode.cost
    # The answer as a field; positions and times may have its digits.
    for text in ("no other user reads", '"42"', "computes"):
        assert text not in f"{begun}{ended}"


async def test_a_call_that_waits_and_its_decision_are_streamed(platform: Platform) -> None:
    platform.neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    platform.neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer("paid"))
    async with stream(platform) as stub, platform.client(subject="boss") as boss:
        watch, _ = await opened(stub)
        episode = await start(platform.ada)
        await until_asked(platform.ada, episode.id)
        requested = (await until(watch, "approval_requested"))[-1].approval_requested
        await boss.ApproveToolCall(
            episodes_pb.ApproveToolCallRequest(
                episode_id=episode.id, turn=requested.turn, approved=True
            )
        )
        decided = (await until(watch, "approval_decided"))[-1].approval_decided
        await until(watch, "episode_ended")
    assert (requested.episode_id, requested.tool_name) == (episode.id, "pay")
    assert requested.expire_time.ToMilliseconds() > 0
    assert (decided.episode_id, decided.turn, decided.approved) == (episode.id, 1, True)


async def test_who_resumes_gets_what_came_meanwhile_once(platform: Platform) -> None:
    async with stream(platform) as stub:
        _, before = await opened(stub)
        first = await platform.run()
        second = await platform.run()
        watch, again = await opened(stub, before.position)
        missed = await until(watch, "episode_ended")
        resumed, _ = await opened(stub, missed[-1].position)
        rest = await until(resumed, "episode_ended")
    assert not again.opened.events_missed
    assert kinds([*missed, *rest]) == ["episode_started", "episode_ended"] * 2
    assert missed[-1].episode_ended.episode_id == first.id
    assert rest[-1].episode_ended.episode_id == second.id


async def test_an_event_of_a_transaction_that_ends_later_is_not_passed_by(
    platform: Platform,
) -> None:
    late = await asyncpg.connect(platform.database_url.replace("+asyncpg", ""))
    try:
        slow = late.transaction()
        await slow.start()
        await late.execute(
            "INSERT INTO tenant_events (tenant, message_id, event_type, body)"
            " VALUES ($1, $2, $3, $4)",
            platform.tenant,
            "late",
            "episode.started",
            '{"data": {"episode_id": "late"}}',
        )
        async with stream(platform) as stub:
            watch, _ = await opened(stub)
            episode = await platform.run()
            await slow.commit()
            found = await until(watch, "episode_ended")
    finally:
        await late.close()
    begun = [each.episode_started.episode_id for each in found if each.HasField("episode_started")]
    assert begun == ["late", episode.id]


@pytest.mark.parametrize("age", [timedelta(hours=2), timedelta(days=9000)])
async def test_a_position_that_is_too_old_is_answered_with_a_stream_that_says_so(
    platform: Platform, age: timedelta
) -> None:
    old = EventPosition(1, 1, datetime.now(UTC) - age)
    async with stream(platform) as stub:
        watch, first = await opened(stub, str(old))
        await platform.run()
        await until(watch, "episode_ended")
    assert first.opened.events_missed


async def test_events_of_more_than_an_hour_ago_are_deleted(platform: Platform) -> None:
    url = platform.database_url
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    engine = open_engine(url)
    try:
        for name, age in (("old", timedelta(minutes=61)), ("recent", timedelta(minutes=59))):
            await connection.execute(
                "INSERT INTO tenant_events (tenant, message_id, event_type, body, create_time)"
                " VALUES ($1, $2, 'episode.started', '{}', now() - $3::interval)",
                *(platform.tenant, name, age),
            )
        await TenantEventStore(engine).forget()
        stored = await connection.fetch(
            "SELECT message_id FROM tenant_events WHERE tenant = $1", platform.tenant
        )
    finally:
        await engine.dispose()
        await connection.close()
    assert [row["message_id"] for row in stored] == ["recent"]


@pytest.mark.parametrize("position", ["x", "1-2", "1-2-3-4", "-1-2-3", "9" * 30 + "-1-1"])
async def test_what_is_no_position_is_rejected(platform: Platform, position: str) -> None:
    async with stream(platform) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await opened(stub, position)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "after" in str(error.value.details())


async def test_another_tenant_reads_nothing_of_it_but_that_the_stream_lives(
    platform: Platform,
) -> None:
    async with stream(platform, tenant="rival") as rival, stream(platform) as own:
        theirs, place = await opened(rival)
        ours, _ = await opened(own, place.position)
        await platform.run()
        await until(ours, "episode_ended")
        resumed, _ = await opened(rival, place.position)
        found = await until(resumed, "heartbeat")
    assert kinds(found) == ["heartbeat"]
    del theirs


async def test_a_budget_that_passes_a_limit_is_streamed_to_who_may_list_budgets(
    platform: Platform,
) -> None:
    now = timestamp_to_proto(datetime.now(UTC))
    five = money_pb2.Money(currency_code="USD", amount="5")
    alert = alert_pb2.BudgetAlert(
        id=f"{platform.tenant}/daily/1", budget_id="daily", window_start=now, create_time=now
    )
    for field in (alert.soft_limit, alert.posted, alert.hard_limit):
        field.CopyFrom(five)
    async with (
        stream(platform, scopes=[Scope.SPEND_READ]) as auditor,
        stream(platform, scopes=[Scope.CALLS_APPROVE]) as approver,
    ):
        watch, place = await opened(auditor)
        platform.neighbours.ledger.alerts.append(alert)
        passed = (await until(watch, "budget_limit_passed"))[-1].budget_limit_passed
        await platform.run()
        seen, _ = await opened(approver, place.position)
        found = await until(seen, "episode_ended")
    assert (passed.budget_id, passed.posted, passed.window_start) == ("daily", five, now)
    assert "budget_limit_passed" not in kinds(found)


async def test_a_tenant_has_only_so_many_streams_and_a_closed_one_makes_room(
    platform: Platform,
) -> None:
    async with stream(platform) as stub:
        watches = [await opened(stub) for _ in range(STREAMS_MAX)]
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await opened(stub)
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        watches[0][0].cancel()  # type: ignore[attr-defined]
        async with asyncio.timeout(60):
            while True:
                try:
                    await opened(stub)
                    break
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.1)
