import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from temporalio.exceptions import ApplicationError

from episodes.execution.outcomes import CANCELLED, Finished, Waiting
from episodes.keys import StepKind, effect_key
from episodes.models import Membership, OutboxRecord, StopReason
from episodes.publication.store_outbox import OutboxStore
from episodes.spending.worst_case import hold_request
from episodes.step_log.store import StepStore
from episodes.store import EpisodeStore
from episodes.workflows.activities import EpisodeActivities
from episodes.workflows.payloads import TurnResult
from integration.episodes.attempts import TENANT, Workers, attempt, run, run_from, workers_on
from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset, one_call
from integration.episodes.platform_under_test import finished, new_id, run_platform, start, until
from openai_server import OpenAiServer, Reply
from orchestrator_inference.config import OrchestratorInferenceSettings
from orchestrator_inference.server import assembled
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import trajectory_pb2
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.money import Money
from podium_kit.postgres.engine import DatabaseUnavailable
from podium_kit.rpc.errors import Unavailable
from podium_kit.rpc.identity import acting_as
from podium_kit.rpc.server import running_server
from podium_kit.wire import duration_to_proto

if TYPE_CHECKING:
    # Only the stubs know the asynchronous face of a stub.
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub


LEDGER, AWAY = "CostLedgerService/Apply", Unavailable("connection refused")


@pytest_asyncio.fixture
async def workers(engine: AsyncEngine, tmp_path: Path) -> AsyncIterator[Workers]:
    async with workers_on(engine, tmp_path) as running:
        yield running


async def test_a_worker_reads_what_another_one_did_in_the_turn_that_it_began(
    workers: Workers,
) -> None:
    """It asked a person, and the other one made the call and drained."""
    orchestrator = workers.neighbours.orchestrator
    orchestrator.decide = in_turns(calls(call("pay")), answer("paid"))
    episode_id = await workers.episode(make_toolset("pay", needs_approval=True))
    first, other = workers.another(), workers.another()
    asked = await run(first, run_from(episode_id))
    assert asked == Waiting(1, pending=(0,))
    approved = replace(run_from(episode_id), approvals={"0": True})
    await run(other, approved, drains=True)
    ended = await run(first, run_from(episode_id, 2))
    assert ended == Finished(StopReason.ANSWERED, turn=2, settled=True)
    [turn] = orchestrator.requests[-1].turns
    assert [seen.content for seen in turn.observations] == ["pay says {}"]


async def test_what_a_person_is_asked_is_shown_before_the_worker_ends(
    workers: Workers, engine: AsyncEngine
) -> None:
    """Watchers see settled steps alone, and no worker takes the turn again before the answer."""
    workers.neighbours.orchestrator.decide = in_turns(calls(call("pay")))
    episode_id = await workers.episode(make_toolset("pay", needs_approval=True))
    await run(workers.another(), run_from(episode_id))
    assert [step.settled for step in await StepStore(engine).read(episode_id)] == [True, True]


async def test_a_call_that_another_worker_sent_is_not_given_back(workers: Workers) -> None:
    """The first attempt failed before it sent the call; another worker's was cut off after it."""
    orchestrator, ledger = workers.neighbours.orchestrator, workers.neighbours.ledger
    orchestrator.delay_s = 600.0
    episode_id = await workers.episode()
    first, other = workers.another(), workers.another()
    outage = workers.tenants.fail(TENANT, LEDGER, error=AWAY)
    with pytest.raises(ApplicationError):
        await attempt(1).run(EpisodeActivities(first).take_turn, run_from(episode_id))
    outage.end()
    second = attempt(2)
    taking = asyncio.create_task(
        second.run(EpisodeActivities(other).take_turn, run_from(episode_id))
    )
    await until(orchestrator.was_asked.is_set)
    second.cancel()
    assert await taking == TurnResult.of(replace(CANCELLED, settled=True))
    assert set(ledger.unpriced) == set(ledger.holds) and not ledger.released


async def test_two_attempts_of_one_worker_at_once_end_an_episode_once(workers: Workers) -> None:
    """Its lease ended unnoticed, and the same worker took it again."""
    ledger = workers.neighbours.ledger
    workers.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    episode_id, worker = await workers.episode(), workers.another()
    ended = await asyncio.gather(
        *(run(worker, run_from(episode_id), is_retry=again) for again in (False, True))
    )
    assert all(isinstance(one, Finished) and one.settled for one in ended)
    assert set(ledger.holds) == set(ledger.captured) and len(ledger.holds) == 3
    stored = await EpisodeStore(workers.engine).load(episode_id)
    assert stored.progress.cost == Money(ledger.total(episode_id), "USD")


async def test_what_another_attempt_stores_meanwhile_is_not_settled_as_free(
    workers: Workers,
) -> None:
    """A call was not sent, so its money is given back and not forgotten."""
    ledger = workers.neighbours.ledger
    episode_id, worker = await workers.episode(), workers.another()
    charges = worker.turns.invoker.charges
    episode, log = (
        await worker.turns.episodes.get(episode_id),
        await worker.turns.logs.open(episode_id),
    )
    keys = [effect_key(episode_id, 1, StepKind.TOOL, index) for index in range(2)]
    first, other = (hold_request(key, "calculator", "", "tool", (), turn=1) for key in keys)
    with acting_as(episode.identity):
        await charges.settle_and_reserve(episode, log, [first])
        outage = workers.tenants.fail(TENANT, LEDGER)
        asking = asyncio.create_task(charges.settle_and_reserve(episode, log, [other]))
        await until(lambda: bool(outage.calls))
        unsent = trajectory_pb2.ToolInvocation(unsent=True)
        await worker.turns.logs.append(log, [(1, StepKind.TOOL, 0, unsent)])
        outage.end()
        await asking
        await charges.settle_and_reserve(episode, log, [])
    assert ledger.released == {first.key}


@pytest.mark.parametrize("stop", ["cancelled", "deadline", "failed"])
async def test_an_attempt_whose_call_the_end_cut_off_goes_no_further(
    workers: Workers, stop: str
) -> None:
    """Another worker ended the episode, and this one has not heard of it."""
    neighbours = workers.neighbours
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    episode_id, first = await workers.episode(), workers.another()
    outage = workers.tenants.fail(TENANT, "OrchestratorService/NextAction")
    taking = asyncio.create_task(run(first, run_from(episode_id)))
    await until(lambda: bool(outage.calls))
    await workers.another().finisher.finish(episode_id, Finished(StopReason(stop)))
    outage.end()
    ended = await taking
    assert isinstance(ended, Finished) and ended.stop_reason == stop
    assert len(neighbours.orchestrator.requests) == len(neighbours.ledger.holds) == 1


async def test_an_attempt_at_an_episode_that_has_ended_spends_nothing(workers: Workers) -> None:
    """The caller's results came while it ended, and started a workflow."""
    episode_id = await workers.episode()
    await workers.another().finisher.finish(episode_id, CANCELLED)
    late = await run(workers.another(), run_from(episode_id), is_retry=True)
    assert late == replace(CANCELLED, settled=True)
    assert not workers.neighbours.ledger.holds and not workers.neighbours.orchestrator.requests


class DiesBeforeTheGroupsEnd(OutboxStore):
    """The outbox of a worker that has ended a group's last episode, and then dies."""

    async def add(self, record: OutboxRecord) -> None:
        raise DatabaseUnavailable


async def test_an_attempt_at_the_last_of_a_group_owes_the_groups_end(
    workers: Workers, engine: AsyncEngine
) -> None:
    group = new_id()
    first, last = [await workers.episode(place=Membership(group, 2, n, group)) for n in range(2)]
    worker = workers.another()
    await run(worker, run_from(first))
    dying = replace(
        worker, finisher=replace(worker.finisher, outbox=DiesBeforeTheGroupsEnd(engine))
    )
    cut = await run(dying, run_from(last))
    assert cut == Finished(StopReason.ANSWERED, turn=1)
    ended = await run(workers.another(), run_from(last), is_retry=True)
    assert ended == Finished(StopReason.ANSWERED, settled=True)
    owed, _ = await OutboxStore(engine).pending(10, 10_000_000)
    assert [one.record.kind for one in owed] == ["trajectory", "trajectory", "group_closed"]


class SearchesForEver:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def invoke(
        self, request: adapters_pb.InvokeRequest, _timeout_s: float
    ) -> adapters_pb.InvokeResponse:
        self.asked.append(request.tool_name)
        if request.tool_name == "search":
            await asyncio.Event().wait()
        output = adapters_pb.ToolOutput(content="42")
        return adapters_pb.InvokeResponse(output=output, usage=one_call())


async def test_what_was_answered_before_the_end_cut_off_the_rest_has_its_cost(
    workers: Workers,
) -> None:
    adapters: Any = SearchesForEver()
    worker, ledger = workers.another(), workers.neighbours.ledger
    invoker = replace(worker.turns.invoker, adapters=adapters)
    worker = replace(worker, turns=replace(worker.turns, invoker=invoker))
    both = calls(call("calculator"), call("search", index=1))
    workers.neighbours.orchestrator.decide = in_turns(both)
    episode_id = await workers.episode(make_toolset("calculator", "search"))
    taking = asyncio.create_task(run(worker, run_from(episode_id)))
    await until(lambda: len(adapters.asked) == 2)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    await workers.another().finisher.finish(episode_id, CANCELLED)
    first, second = (effect_key(episode_id, 1, StepKind.TOOL, index) for index in (0, 1))
    assert ledger.captured[first] and set(ledger.unpriced) == {second}
    log = await worker.turns.logs.open(episode_id)
    assert log.tool_calls[1][0].observation.content == "42"


# Once it was given back: a worker's lease names its holder.
PAUSE = text(
    """
    SELECT extract(epoch FROM due_time - clock_timestamp()) FROM episode_queue
    WHERE episode_id = CAST(:id AS uuid) AND attempts = 1 AND holder = ''
    """
)


async def test_a_turn_waits_as_long_as_the_engine_asks(
    database: Callable[[], Awaitable[str]],
    temporal: EmbeddedTemporal,
    kafka: EmbeddedKafka,
    tmp_path: Path,
) -> None:
    orchestrator = free_port()
    target = {"orchestrator_inference_target": f"127.0.0.1:{orchestrator}"}
    busy = [Reply("busy", status, {"retry-after": "3600"}) for status in (429, 503)]
    url = await database()
    episodes = create_async_engine(url)
    with OpenAiServer(busy) as engine:
        async with run_platform(url, temporal, kafka, tmp_path, target) as platform:
            settings = OrchestratorInferenceSettings(
                port=orchestrator,
                verify_keys_file=tmp_path / "verify.json",
                engine_base_url=engine.base_url,
                drain_grace_s=0,
            )
            async with (
                assembled(settings) as served,
                running_server(settings, *served),
                platform.client() as client,
            ):
                waited_s = [await first_wait_s(client, episodes) for _ in busy]
    await episodes.dispose()
    assert waited_s == [pytest.approx(3600, abs=60)] * 2
    assert len(engine.requests) == 2, "retried by something other than the queue"


async def first_wait_s(client: "EpisodeServiceAsyncStub", episodes: AsyncEngine) -> float:
    # No pause is longer than the episode may last.
    episode = await start(client, time_limit=duration_to_proto(7200))
    waited_s = await pause_s(episodes, episode.id)
    await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
    await finished(client, episode.id)
    return waited_s


async def pause_s(engine: AsyncEngine, episode_id: str) -> float:
    while True:
        async with engine.connect() as connection:
            found = (await connection.execute(PAUSE, {"id": episode_id})).scalar()
        if found is not None:
            return float(found)
        await asyncio.sleep(0.05)
