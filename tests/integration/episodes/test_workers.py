import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import grpc
import psutil
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub
from sqlalchemy.ext.asyncio import create_async_engine
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from embedded_servers import Database
from episodes.keys import workflow_id
from episodes.models import OutboxRecord
from episodes.publication.store_outbox import OutboxStore
from episodes.queue.metrics import oldest
from episodes.server import MIGRATIONS
from episodes.workflows.connection import TemporalConnection, backlog_age_s, waiting_tasks
from episodes.workflows.settings import TemporalSettings
from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import (
    Outage,
    Platform,
    finished,
    run_platform,
    start,
    until,
    until_asked,
)
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.orchestrator.v1.orchestrator_service_pb2 import Action, NextActionRequest
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.postgres.migrations import upgrade
from podium_kit.rpc.errors import Unavailable
from podium_kit.wire import duration_to_proto
from workflows.running_workflows import make_current

if TYPE_CHECKING:
    pass

AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
LEDGER, AWAY = ("CostLedgerService/Apply",), Unavailable("connection refused", retry_after_s=0.01)


async def workflow_of(
    temporal: EmbeddedTemporal, episode_id: str
) -> WorkflowExecutionStatus | None:
    client = await Client.connect(temporal.target)
    try:
        return (await client.get_workflow_handle(workflow_id(episode_id)).describe()).status
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


async def test_an_episode_that_nobody_waits_for_has_no_workflow(
    platform: Platform, temporal: EmbeddedTemporal
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    ended = await platform.run()
    assert (ended.stop_reason, ended.answer) == (episode_pb2.STOP_REASON_ANSWERED, "42")
    assert await workflow_of(temporal, ended.id) is None


async def test_a_cancelled_and_a_late_episode_have_none(
    platform: Platform, temporal: EmbeddedTemporal
) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.delay_s = 600.0
    started = await start(platform.ada)
    await until(lambda: bool(neighbours.orchestrator.requests))
    await platform.ada.CancelEpisode(pb.CancelEpisodeRequest(episode_id=started.id))
    cancelled = await finished(platform.ada, started.id)
    started = await start(platform.ada, time_limit=duration_to_proto(1))
    late = await finished(platform.ada, started.id)
    assert cancelled.stop_reason == episode_pb2.STOP_REASON_CANCELLED
    assert late.stop_reason == episode_pb2.STOP_REASON_DEADLINE
    for ended in (cancelled, late):
        assert await workflow_of(temporal, ended.id) is None
    # Who was cut off holds no money.
    ledger = neighbours.ledger
    assert set(ledger.holds) == ledger.released | set(ledger.captured)


async def test_one_that_waits_for_a_person_gets_a_workflow_which_goes_on(
    platform: Platform, temporal: EmbeddedTemporal
) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer("paid"))
    async with platform.client() as ada, platform.client(subject="boss") as boss:
        started = await start(ada)
        await until_asked(ada, started.id)
        # At once, so that the worker may not have handed it over yet.
        await boss.ApproveToolCall(
            pb.ApproveToolCallRequest(episode_id=started.id, turn=1, approved=True)
        )
        ended = await finished(ada, started.id)
    assert (ended.stop_reason, ended.answer) == (episode_pb2.STOP_REASON_ANSWERED, "paid")
    assert await workflow_of(temporal, ended.id) is not None
    # The workflow walked through the turn that was taken before it.
    assert len(neighbours.orchestrator.requests) == 2
    assert set(neighbours.ledger.holds) == set(neighbours.ledger.captured)


async def test_an_end_that_cannot_be_stored_is_a_workflows(
    platform: Platform, temporal: EmbeddedTemporal
) -> None:
    """The answer is there when the ledger goes, so the time limit does not take it back."""
    neighbours = platform.neighbours
    outages: list[Outage] = []

    def decide(request: NextActionRequest) -> Action:
        outages.append(platform.tenants.fail(platform.tenant, *LEDGER, error=AWAY))
        return in_turns(answer("42"))(request)

    neighbours.orchestrator.decide = decide
    started = await start(platform.ada)
    async with asyncio.timeout(90):
        while await workflow_of(temporal, started.id) is None:
            await asyncio.sleep(0.1)
    outages[0].end()
    ended = await finished(platform.ada, started.id)
    assert (ended.stop_reason, ended.answer) == (episode_pb2.STOP_REASON_ANSWERED, "42")
    assert len(neighbours.orchestrator.requests) == 1


@pytest.mark.chaos
async def test_the_next_worker_continues_what_a_draining_one_leaves(
    own_platform: Platform, temporal: EmbeddedTemporal
) -> None:
    neighbours = own_platform.neighbours
    neighbours.orchestrator.decide = in_turns(
        calls(call("calculator")), calls(call("calculator")), answer("42")
    )
    neighbours.orchestrator.delay_s = 2.0
    async with own_platform.client() as client:
        started = [await start(client) for _ in range(5)]
        await until(lambda: len(neighbours.orchestrator.requests) >= 5)
        await own_platform.worker.terminate()
        own_platform.worker.start()
        ended = await asyncio.gather(*(finished(client, one.id) for one in started))
        for one in started:
            assert await workflow_of(temporal, one.id) is None
    assert {one.stop_reason for one in ended} == {episode_pb2.STOP_REASON_ANSWERED}
    # Nothing that was done before is done again.
    assert set(neighbours.orchestrator.asked.values()) == {1}
    assert len(neighbours.orchestrator.asked) == 15
    assert set(neighbours.ledger.holds) == set(neighbours.ledger.captured)


BOTH = pytest.mark.parametrize("versioned", [False, True], ids=["default", "production"])


def versions(versioned: bool) -> dict[str, str]:
    """Settings of a versioned worker, as the production profile runs it."""
    return {"deployment_name": f"episodes-{uuid4().hex}", "build_id": "1"} if versioned else {}


async def make_current_version(temporal: EmbeddedTemporal, settings: dict[str, str]) -> None:
    if name := settings.get("deployment_name"):
        await make_current(await Client.connect(temporal.target), name, settings["build_id"])


async def listed(
    temporal: EmbeddedTemporal, platform: Platform, episode: episode_pb2.Episode
) -> None:
    """Waits until Temporal lists an episode's workflow under its search attributes."""
    attributes = {
        "PodiumTenant": platform.tenant,
        "PodiumEpisode": episode.id,
        "PodiumPolicy": episode.policy_name,
        "PodiumModel": "",
    }
    query = " AND ".join(f"{name} = '{value}'" for name, value in attributes.items())
    client = await Client.connect(temporal.target)
    async with asyncio.timeout(60):
        while not [one.id async for one in client.list_workflows(query)]:
            await asyncio.sleep(0.05)


@BOTH
async def test_temporal_lists_an_episode_of_many_turns_and_no_short_one(
    database: Database,
    temporal: EmbeddedTemporal,
    kafka: EmbeddedKafka,
    tmp_path: Path,
    versioned: bool,
) -> None:
    settings = {"long_turns": "1"} | versions(versioned)
    async with (
        run_platform(await database("episodes"), temporal, kafka, tmp_path, settings) as platform,
        platform.client() as client,
    ):
        await make_current_version(temporal, settings)
        orchestrator = platform.neighbours.orchestrator
        short = await finished(client, (await start(client)).id)
        orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
        long = await finished(client, (await start(client)).id)
        assert (long.stop_reason, long.answer) == (episode_pb2.STOP_REASON_ANSWERED, "42")
        assert set(orchestrator.asked.values()) == {1}
        await listed(temporal, platform, long)
        assert await workflow_of(temporal, short.id) is None


@pytest.mark.chaos
@BOTH
async def test_temporal_lists_an_episode_of_forty_seconds_and_none_of_five(
    database: Database,
    temporal: EmbeddedTemporal,
    kafka: EmbeddedKafka,
    tmp_path: Path,
    versioned: bool,
) -> None:
    settings = versions(versioned)
    async with (
        run_platform(await database("episodes"), temporal, kafka, tmp_path, settings) as platform,
        platform.client() as client,
    ):
        await make_current_version(temporal, settings)
        orchestrator = platform.neighbours.orchestrator
        orchestrator.delay_s = 5.0
        short = await finished(client, (await start(client)).id)
        orchestrator.delay_s = 10.2
        orchestrator.decide = in_turns(*3 * [calls(call("calculator"))], answer("42"))
        await listed(temporal, platform, await finished(client, (await start(client)).id))
        assert await workflow_of(temporal, short.id) is None


@pytest.mark.chaos
async def test_what_waits_is_handed_over_when_temporal_is_back(
    own_platform: Platform, temporal: EmbeddedTemporal
) -> None:
    neighbours, process = own_platform.neighbours, psutil.Process(temporal.process.pid)
    neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer("paid"))
    async with own_platform.client() as ada, own_platform.client(subject="boss") as boss:
        # A worker that starts connects to Temporal before all else.
        await until_asked(ada, (await start(ada)).id)
        process.suspend()
        try:
            started = await start(ada)
            await until_asked(ada, started.id)
            request = pb.ApproveToolCallRequest(episode_id=started.id, turn=1, approved=True)
            with pytest.raises(grpc.aio.AioRpcError) as away:
                await boss.ApproveToolCall(request)
            # Whichever of server and client waits longer.
            assert away.value.code() in AGAIN
        finally:
            process.resume()
        async with asyncio.timeout(60):
            while await workflow_of(temporal, started.id) is None:
                await asyncio.sleep(0.1)
        await boss.ApproveToolCall(request)
        ended = await finished(ada, started.id)
    assert (ended.stop_reason, ended.answer) == (episode_pb2.STOP_REASON_ANSWERED, "paid")
    assert set(neighbours.orchestrator.asked.values()) == {1}


@pytest.mark.chaos
async def test_what_a_dead_worker_had_is_anothers_without_temporal(
    own_platform: Platform, temporal: EmbeddedTemporal
) -> None:
    neighbours, process = own_platform.neighbours, psutil.Process(temporal.process.pid)
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    neighbours.adapters.delay_s = 600.0
    async with own_platform.client() as client:
        started = await start(client)
        await until(lambda: bool(neighbours.adapters.requests))
        # The new worker connects to Temporal when it starts.
        await own_platform.worker.kill()
        neighbours.adapters.delay_s = 0.0
        own_platform.worker.start()
        ended = await finished(client, started.id)
        assert await workflow_of(temporal, ended.id) is None
        process.suspend()
        try:
            ended = await finished(client, (await start(client)).id)
        finally:
            process.resume()
    assert (ended.stop_reason, ended.answer) == (episode_pb2.STOP_REASON_ANSWERED, "42")
    # The model was asked once a turn, whichever worker took it.
    assert len(neighbours.orchestrator.requests) == 4


async def test_a_task_that_no_worker_takes_grows_old(temporal: EmbeddedTemporal) -> None:
    connection = await TemporalConnection.open(temporal.target, "default", TemporalSettings())
    queue = f"nobody-{uuid.uuid4().hex}"
    assert await backlog_age_s(connection, queue) == 0
    await connection.client.start_workflow(
        "Forgotten", id=uuid.uuid4().hex, task_queue=queue, execution_timeout=timedelta(minutes=5)
    )
    first = await older_than(connection, queue, 0)
    assert await waiting_tasks(connection, queue) == 1
    assert await older_than(connection, queue, first) > first


@pytest.mark.chaos
async def test_no_task_waits_while_temporal_is_away(temporal: EmbeddedTemporal) -> None:
    connection = await TemporalConnection.open(temporal.target, "default", TemporalSettings())
    process = psutil.Process(temporal.process.pid)
    process.suspend()
    try:
        assert await waiting_tasks(connection, "episodes") == 0
    finally:
        process.resume()


async def older_than(connection: TemporalConnection, queue: str, age_s: float) -> float:
    async with asyncio.timeout(120):
        while (found := await backlog_age_s(connection, queue)) <= age_s:
            await asyncio.sleep(0.2)
    return found


async def test_the_oldest_of_what_waits_is_shown() -> None:
    async def tasks_s() -> float:
        return 2.0

    async def calls_s() -> float:
        return 3.0

    assert await oldest(tasks_s, calls_s)() == 3.0


async def test_a_record_that_is_on_no_topic_grows_old(database: Database) -> None:
    url = await database("episodes")
    await upgrade(url, MIGRATIONS)
    engine = create_async_engine(url)
    outbox = OutboxStore(engine)
    assert await outbox.oldest_pending_s() == 0
    for number in ("1", "2"):
        await outbox.add(OutboxRecord(number, "trajectory", "acme", "g", number.encode(), {}))
    first = await outbox.oldest_pending_s()
    assert await outbox.oldest_pending_s() > first > 0
    (placed, kept_aside), _ = await outbox.pending(2, 100)
    await outbox.mark_published([(placed.row_id, 0, 0)])
    assert await outbox.oldest_pending_s() > 0
    # What is dead-lettered waits for a person, whom another alert calls.
    await outbox.mark_dead(kept_aside, "no trainer can use it")
    assert await outbox.oldest_pending_s() == 0
    await engine.dispose()


async def test_what_is_owed_comes_in_batches_of_bounded_size(database: Database) -> None:
    url = await database("episodes")
    await upgrade(url, MIGRATIONS)
    engine = create_async_engine(url)
    outbox = OutboxStore(engine)
    for number in ("1", "2", "3"):
        body = number.encode() * 10
        await outbox.add(OutboxRecord(number, "trajectory", "acme", "g", body, {}))

    async def batch(limit: int, batch_bytes: int) -> tuple[str, bool]:
        owed, more = await outbox.pending(limit, batch_bytes)
        return "".join(each.record.record_id for each in owed), more

    assert await batch(3, 30) == ("123", False)
    assert await batch(2, 30) == ("12", True)
    assert await batch(3, 29) == ("12", True)
    # A record that is larger than a batch goes alone.
    assert await batch(3, 1) == ("1", True)
    await engine.dispose()


SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def states(platform: Platform, service: str) -> AsyncIterator[int]:
    target = f"127.0.0.1:{platform.worker_health_port}"
    async with grpc.aio.insecure_channel(target) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        async for update in HealthStub(channel).Watch(request, wait_for_ready=True):
            if update.status in (SERVING, NOT_SERVING):
                yield update.status


@pytest.mark.chaos
async def test_readiness_follows_each_dependency_and_liveness_none(
    database: Database,
    postgres_server: EmbeddedPostgres,
    tmp_path: Path,
) -> None:
    temporal = EmbeddedTemporal(tmp_path / "temporal", free_port())
    kafka = EmbeddedKafka(free_port(), log_path=tmp_path / "kafka.log")
    await asyncio.gather(temporal.start(), kafka.start())
    try:
        async with run_platform(await database("episodes"), temporal, kafka, tmp_path) as platform:
            readiness = states(platform, "readiness")
            assert await next_one(readiness) == SERVING
            for dependency in (kafka, temporal, postgres_server):
                await dependency.kill()
                assert await next_one(readiness) == NOT_SERVING, dependency
                assert await next_one(states(platform, "liveness")) == SERVING
                await dependency.start()
                assert await next_one(readiness) == SERVING, dependency
    finally:
        await asyncio.gather(temporal.stop(), kafka.stop())


async def next_one(updates: AsyncIterator[int]) -> int:
    async with asyncio.timeout(60):
        return await anext(updates)


@pytest.mark.chaos
async def test_a_stopping_worker_reports_it_before_it_drains(own_platform: Platform) -> None:
    readiness = states(own_platform, "readiness")
    assert await next_one(readiness) == SERVING
    assert own_platform.worker.pid
    os.kill(own_platform.worker.pid, signal.SIGTERM)
    assert await next_one(readiness) == NOT_SERVING
