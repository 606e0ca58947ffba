import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.approvals.models import ApprovalPosition
from episodes.approvals.store import ApprovalStore
from episodes.direct_calls.executor import CALL_QUEUE
from episodes.direct_calls.store import DirectCallStore
from episodes.episodes.search import EpisodeFilter, SearchOrder
from episodes.episodes.store_search import EpisodeSearch
from episodes.keys import StepKind
from episodes.models import EpisodeState, Step
from episodes.queue.lease_worker import LEASE_S, PER_TENANT_MAX, RENEW_INTERVAL_S, LeaseWorker
from episodes.queue.store import (
    ACQUIRE,
    EPISODE_QUEUE,
    EpisodeQueue,
    LeasedRow,
    QueuedEpisode,
    QueueTable,
    WorkQueue,
)
from episodes.step_log.log import StepLogs
from episodes.step_log.settlements import Settlements
from episodes.step_log.store import StepStore
from episodes.step_log.store_client_results import ClientResultStore
from episodes.step_log.store_notifications import CHANNEL
from episodes.store import EpisodeStore
from episodes.webhooks.models import Event, EventType
from episodes.workflows.payloads import TurnResult
from integration.episodes.attempts import new_episode, queued_call, queued_episode
from integration.episodes.platform_under_test import new_id
from podium.episodes.v1 import trajectory_pb2
from podium_kit.money import Money
from podium_kit.postgres.engine import TransactionConflict
from podium_kit.postgres.leadership import Leadership
from podium_kit.postgres.notifications import Listener, Notifications

LONG_S = 60.0


@dataclass(frozen=True)
class Kind:
    table: QueueTable[Any]
    add: Callable[[AsyncEngine, str], Awaitable[str]]


KINDS = [Kind(CALL_QUEUE, queued_call), Kind(EPISODE_QUEUE, queued_episode)]


@dataclass(frozen=True)
class Queues:
    engine: AsyncEngine
    kind: Kind

    def of(self, holder: str) -> WorkQueue[Any]:
        return WorkQueue(self.engine, self.kind.table, holder)

    async def add(self, count: int, tenant: str = "acme") -> list[str]:
        return [await self.kind.add(self.engine, tenant) for _ in range(count)]


@pytest.fixture(params=KINDS, ids=[kind.table.kind for kind in KINDS])
def queues(engine: AsyncEngine, request: pytest.FixtureRequest) -> Queues:
    return Queues(engine, request.param)


async def taken(queue: WorkQueue[Any], most: int = 10, lease_s: float = LONG_S) -> list[str]:
    return [one.id for one in await queue.acquire(most, lease_s)]


async def test_workers_that_take_at_once_share_what_is_there(queues: Queues) -> None:
    ids = await queues.add(12)
    workers = [queues.of(name) for name in ("a", "b", "c")]
    shares = await asyncio.gather(*(taken(worker, most=4) for worker in workers))
    again = await asyncio.gather(*(taken(worker, most=12) for worker in workers))
    assert sorted(id for share in [*shares, *again] for id in share) == sorted(ids)


async def test_the_oldest_is_taken_first(queues: Queues) -> None:
    first, second = await queues.add(2)
    queue = queues.of("a")
    assert await taken(queue, most=1) == [first]
    assert await taken(queue, most=1) == [second]


async def test_a_tenants_many_rows_leave_places_to_another_tenants_few(queues: Queues) -> None:
    many = await queues.add(40, "many")
    first, *others = await queues.add(3, "few")
    queue, other = queues.of("a"), queues.of("b")
    assert set(await taken(queue, most=2)) == {many[0], first}
    # The tenant with the fewest that are worked on is next, on another worker, too.
    assert set(await taken(other, most=4)) == {*many[1:3], *others}
    await queue.drop(first)
    [newest] = await queues.add(1, "few")
    assert await taken(other, most=1) == [newest]
    # What is there alone gets all places.
    assert await taken(queue, most=37) == many[3:]


async def test_a_tenant_has_so_many_rows_of_a_worker_at_most(queues: Queues) -> None:
    many, few = await queues.add(5, "many"), await queues.add(1, "few")
    queue, other = queues.of("a"), queues.of("b")
    leased = [one.id for one in await queue.acquire(10, LONG_S, per_tenant=2)]
    assert set(leased) == {*many[:2], *few}
    assert await queue.acquire(10, LONG_S, per_tenant=2) == []
    await queue.drop(many[0])
    assert [one.id for one in await queue.acquire(10, LONG_S, per_tenant=2)] == [many[2]]
    assert await taken(other) == many[3:]


async def test_it_is_taken_again_when_its_lease_ends(queues: Queues) -> None:
    [id] = await queues.add(1)
    dead, alive = queues.of("dead"), queues.of("alive")
    assert await taken(dead, lease_s=0.0) == [id]
    [one] = await alive.acquire(10, LONG_S)
    assert (one.id, one.attempts) == (id, 2)
    # Whoever had it before hears that it is not theirs, and gives nothing back.
    assert await dead.renew([id], LONG_S) == {}
    await dead.release([id], 0.0)
    assert await alive.renew([id], LONG_S) == {id: False}
    assert await taken(dead) == []


async def test_rows_of_a_process_that_has_ended_are_free_once_a_renewal_is_late(
    queues: Queues,
) -> None:
    dead, alive, observer = (queues.of(name) for name in ("dead", "alive", "observer"))
    [late, of_living] = await queues.add(2)
    [renewed] = await queues.add(1, "other")
    assert await taken(dead, most=1) == [late]
    assert await taken(alive, most=1, lease_s=10 * LONG_S) == [renewed]
    assert await taken(alive, most=1) == [of_living]
    presence = Leadership(queues.engine, "alive")
    # True would have a background task ask again at once, for ever.
    assert await presence.keep() is None  # type: ignore[func-returns-value]
    assert await presence.held()
    assert await observer.free_orphans(2 * LONG_S) == 1
    assert await taken(observer) == [late]
    # Its session ends as with its process.
    await presence.give_up()
    while not await observer.free_orphans(2 * LONG_S):
        await asyncio.sleep(0.01)
    assert set(await taken(observer)) >= {of_living}
    assert await alive.renew([renewed, of_living], LONG_S) == {renewed: False}


class LongPresent(Leadership):
    held_for_s = LEASE_S


async def test_a_worker_takes_over_once_its_own_session_is_old_enough(engine: AsyncEngine) -> None:
    runner = LeaseWorker(WorkQueue(engine, EPISODE_QUEUE, "a"), Endless(), 10)
    id = await queued_episode(engine)
    # About to end, and the worker acquires nothing by itself.
    assert await taken(WorkQueue(engine, EPISODE_QUEUE, "dead"), lease_s=RENEW_INTERVAL_S) == [id]
    await runner.take_over(Leadership(engine, "a"))
    assert not runner._news.is_set()
    await runner.take_over(LongPresent(engine, "a"))
    await runner.acquire()
    assert list(runner._running) == [id]


async def test_what_is_given_back_is_anybodys_after_the_pause(queues: Queues) -> None:
    now, later = await queues.add(2)
    queue, other = queues.of("a"), queues.of("b")
    await taken(queue)
    assert await other.backlog_age_s() == 0
    await queue.release([now], 0.0)
    await queue.release([later], LONG_S)
    assert await other.backlog_age_s() > 0
    assert await taken(other) == [now]


async def test_a_cancel_reaches_who_has_an_episode_and_ends_a_pause(engine: AsyncEngine) -> None:
    held, pausing = await queued_episode(engine), await queued_episode(engine)
    queue, others = WorkQueue(engine, EPISODE_QUEUE, "a"), EpisodeQueue(engine)
    await taken(queue)
    await queue.release([pausing], LONG_S)
    assert await others.cancel(held)
    assert await others.cancel(pausing)
    assert await queue.renew([held], LONG_S) == {held: True}
    [again] = await queue.acquire(10, LONG_S)
    assert again.id == pausing
    assert again.cancelled.is_set()
    # One that has a workflow, or has ended, is not in the queue.
    await others.drop(held)
    assert not await others.cancel(held)


async def test_only_what_is_not_queued_is_a_workflows(engine: AsyncEngine) -> None:
    """The sweep and the reconciler would start or end what a worker is at."""
    store, others = EpisodeStore(engine), EpisodeQueue(engine)
    queued, alone = new_episode(), new_episode()
    await store.insert(queued, queued=True)
    await store.insert(alone)
    for left in [await store.unfinished("", 10)]:
        assert [one.new.episode_id for one in left] == [alone.episode_id]
    assert await others.remove(queued.episode_id)
    assert len(await store.unfinished("", 10)) == 2


async def test_an_episode_that_is_stored_again_is_queued_once(engine: AsyncEngine) -> None:
    store, queue, new = EpisodeStore(engine), WorkQueue(engine, EPISODE_QUEUE, "a"), new_episode()
    for _ in range(2):
        await store.insert(new, queued=True)
    assert await taken(queue) == [new.episode_id]
    await queue.drop(new.episode_id)
    await store.insert(new, queued=True)
    assert await taken(queue) == []


async def test_the_first_who_hands_over_says_how_an_episode_ends(engine: AsyncEngine) -> None:
    episode_id, others = await queued_episode(engine), EpisodeQueue(engine)
    [one] = await WorkQueue(engine, EPISODE_QUEUE, "dead").acquire(10, 0.0)
    assert not one.item.handed_over
    ending = TurnResult(stop="answered", turn=3)
    for given in (ending, None, TurnResult(stop="failed")):
        marked = await others.mark(episode_id, given)
        assert marked is not None
        assert marked.ending == ending
    # Whoever takes it next takes no turn.
    [one] = await WorkQueue(engine, EPISODE_QUEUE, "alive").acquire(10, LONG_S)
    assert one.item.handed_over
    # A cancel that comes before it leaves is not lost.
    await others.cancel(episode_id)
    assert not await others.remove(episode_id)
    await others.drop(episode_id)
    assert await others.remove(episode_id)
    assert await others.mark(episode_id, None) is None


FILL = text(
    """
    WITH stored AS (
        INSERT INTO direct_calls (id, tenant, subject, spec, toolset)
        SELECT gen_random_uuid(), :tenant, 'ada', '', '' FROM generate_series(1, :count)
        RETURNING id, tenant
    )
    INSERT INTO direct_call_queue (call_id, tenant) SELECT id, tenant FROM stored
    """
)


async def stored(engine: AsyncEngine, count: int) -> list[str]:
    return [await queued_call(engine) for _ in range(count)]


async def fill(engine: AsyncEngine, waiting: int) -> None:
    async with engine.begin() as connection:
        for tenant in ("acme", "globex"):
            await connection.execute(FILL, {"tenant": tenant, "count": waiting})
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.execute(text("ANALYZE direct_calls, direct_call_queue"))


def rows_read(plan: dict[str, Any]) -> float:
    here = 0.0
    if "Relation Name" in plan:
        found = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        here = found * plan["Actual Loops"]
    return here + sum(rows_read(below) for below in plan.get("Plans", []))


async def test_taking_reads_a_few_rows_of_each_tenant_however_many_wait(
    engine: AsyncEngine,
) -> None:
    await fill(engine, waiting=20_000)
    values = {"limit": 10, "lease_s": LONG_S, "holder": "a", "per_tenant": 10}
    async with engine.connect() as connection:
        explained = text(f"EXPLAIN (ANALYZE, FORMAT JSON) {CALL_QUEUE.statement(ACQUIRE)}")
        [plan] = (await connection.execute(explained, values)).scalar_one()
    assert rows_read(plan["Plan"]) < 1_000


async def test_a_call_is_open_until_it_is_dropped(engine: AsyncEngine) -> None:
    first, second = await stored(engine, 2)
    queue = WorkQueue(engine, CALL_QUEUE, "a")
    assert await taken(queue, most=1) == [first]
    await queue.release([first], LONG_S)
    assert await queue.size() == 2
    await queue.drop(first)
    await queue.drop(second)
    assert await queue.size() == 0


async def test_a_call_that_has_ended_is_in_no_queue(engine: AsyncEngine) -> None:
    [call_id] = await stored(engine, 1)
    store, queue = DirectCallStore(engine), WorkQueue(engine, CALL_QUEUE, "a")
    await store.ended(call_id, Money.zero("USD"), b"")
    assert await taken(queue) == []
    assert (await store.load(call_id)).ended


Rows = list[LeasedRow[QueuedEpisode]]


@dataclass
class Endless:
    begun: list[str] = field(default_factory=list)

    async def do(self, taken: LeasedRow[QueuedEpisode]) -> None:
        self.begun.append(taken.id)
        await asyncio.Event().wait()

    async def fail(self, taken: LeasedRow[QueuedEpisode], message: str) -> None:
        raise AssertionError(message)

    def max_age_s(self, taken: LeasedRow[QueuedEpisode]) -> float:
        return taken.item.time_limit_s


class SlowQueue(WorkQueue[QueuedEpisode]):
    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine, EPISODE_QUEUE, "slow")
        self.taken, self.gate = asyncio.Event(), asyncio.Event()

    async def acquire(self, most: int, lease_s: float, per_tenant: int = 2**31) -> Rows:
        rows = await super().acquire(most, lease_s, per_tenant)
        self.taken.set()
        await self.gate.wait()
        return rows


async def test_what_is_being_taken_while_a_worker_ends_is_left_to_others(
    engine: AsyncEngine,
) -> None:
    queue, work = SlowQueue(engine), Endless()
    runner, id = LeaseWorker(queue, work, 10), await queued_episode(engine)
    runner.notify_all()
    taking = asyncio.create_task(runner.acquire())
    await queue.taken.wait()
    runner.drain(0.0)
    closing = asyncio.create_task(runner.close())
    asyncio.get_running_loop().call_later(0.2, queue.gate.set)
    await closing
    # As the worker does once all is closed.
    taking.cancel()
    [again] = await WorkQueue(engine, EPISODE_QUEUE, "other").acquire(10, 60.0)
    assert again.id == id


async def test_a_tenant_with_neighbours_has_a_share_of_a_worker_and_alone_all_of_it(
    engine: AsyncEngine,
) -> None:
    queue, work = WorkQueue(engine, EPISODE_QUEUE, "a"), Endless()
    runner = LeaseWorker(queue, work, PER_TENANT_MAX + 20)
    for _ in range(PER_TENANT_MAX + 5):
        await queued_episode(engine, "flood")

    async def lease() -> None:
        runner.notify_all()
        await runner.acquire()

    await lease()
    assert len(runner._running) == PER_TENANT_MAX + 5
    # A neighbour counts from its first lease on.
    await queued_episode(engine, "quiet")
    await lease()
    waiting = await queued_episode(engine, "flood")
    second = await queued_episode(engine, "quiet")
    await lease()
    assert second in runner._running
    assert len(runner._running) == PER_TENANT_MAX + 7
    [other] = await WorkQueue(engine, EPISODE_QUEUE, "other").acquire(10, 60.0)
    assert other.id == waiting
    await runner.close()


async def test_a_worker_of_another_version_leases_nothing(engine: AsyncEngine) -> None:
    versions = {"current": False}
    runner = LeaseWorker(
        WorkQueue(engine, EPISODE_QUEUE, "a"), Endless(), 10, lambda: versions["current"]
    )
    id = await queued_episode(engine)
    runner.notify_all()
    await runner.acquire()
    assert not runner._running
    versions["current"] = True
    runner.notify_all()
    await runner.acquire()
    assert set(runner._running) == {id}
    await runner.close()


StepPlace = tuple[StepKind, int]
MODEL, VERIFIER = (StepKind.MODEL, 0), (StepKind.VERIFIER, 0)
CLIENT_CALLS = (StepKind.CLIENT_CALLS, 0)


def steps_of(episode: str, *taken: StepPlace) -> list[Step]:
    return [
        Step(episode, sequence, 1, kind, index, f"{kind}{index}".encode())
        for sequence, (kind, index) in enumerate(taken, 1)
    ]


async def states(engine: AsyncEngine, episode: str) -> tuple[EpisodeState, list[EpisodeState]]:
    store, search, found = EpisodeStore(engine), EpisodeSearch(engine), []
    for state in EpisodeState:
        wanted = EpisodeFilter(states=(state,))
        page = await search.find("acme", wanted, SearchOrder.NEWEST, None, 50)
        found += [state for each in page.found if each.stored.new.episode_id == episode]
    return (await store.load(episode)).state, found


@pytest.mark.parametrize(
    ("taken", "state"),
    [
        ([], EpisodeState.PENDING),
        ([MODEL], EpisodeState.RUNNING),
        ([MODEL, CLIENT_CALLS], EpisodeState.WAITING),
        # A child has ended while the caller still runs its function.
        ([MODEL, CLIENT_CALLS, (StepKind.TOOL, 1)], EpisodeState.WAITING),
        ([MODEL, (StepKind.APPROVAL, 0)], EpisodeState.WAITING),
        ([MODEL, (StepKind.APPROVAL, 0), (StepKind.TOOL, 0)], EpisodeState.RUNNING),
        # Its answer is being judged.
        ([MODEL, VERIFIER], EpisodeState.RUNNING),
    ],
)
async def test_a_state_is_shown_and_found(
    engine: AsyncEngine, taken: list[StepPlace], state: EpisodeState
) -> None:
    episode = await queued_episode(engine)
    if taken:
        await StepStore(engine).append(steps_of(episode, *taken))
    assert await states(engine, episode) == (state, [state])


async def test_what_was_decided_or_answered_waits_no_longer(engine: AsyncEngine) -> None:
    """The call is made, which may take long, before a step says so."""
    decided, answered = [await queued_episode(engine) for _ in range(2)]
    store, running = StepStore(engine), EpisodeState.RUNNING
    asked = (StepKind.APPROVAL, 0), (StepKind.APPROVAL, 1)
    await store.append(steps_of(decided, MODEL, *asked))
    await store.append(steps_of(answered, MODEL, CLIENT_CALLS, (StepKind.TOOL, 1)))
    for index, state in enumerate((EpisodeState.WAITING, running)):
        place = ApprovalPosition(decided, 1, index)
        await ApprovalStore(engine).decided("acme", place, approved=True)
        assert await states(engine, decided) == (state, [state])
    await ClientResultStore(engine).put(answered, 1, b"")
    assert await states(engine, answered) == (running, [running])


async def test_an_answer_that_nobody_goes_on_from_may_be_given_again(engine: AsyncEngine) -> None:
    """It was stored, and the workflow could not be told; the next poll gives it once more."""
    episode, waiting = await queued_episode(engine), EpisodeState.WAITING
    await StepStore(engine).append(steps_of(episode, MODEL, CLIENT_CALLS))
    await ClientResultStore(engine).put(episode, 1, b"")
    assert await states(engine, episode) == (waiting, [waiting])


async def test_a_free_step_says_nothing_of_the_currency(engine: AsyncEngine) -> None:
    episode, store = await queued_episode(engine), StepStore(engine)
    steps = steps_of(episode, MODEL, (StepKind.TOOL, 0))
    await store.append(steps)
    costs = [(steps[0], Money(Decimal("0.5"), "EUR")), (steps[1], Money.zero("USD"))]
    await store.settle(costs, [])
    progress = (await EpisodeStore(engine).load(episode)).progress
    assert progress.cost == Money(Decimal("0.5"), "EUR")


TURNS = 3


async def test_two_attempts_that_read_at_once_find_each_step_once(engine: AsyncEngine) -> None:
    """A child's admission and the calls beside the child do so, after a handover."""
    store, episode = StepStore(engine), await queued_episode(engine)
    logs = StepLogs(store, Settlements(store))
    log = await logs.open(episode)
    for turn in range(1, TURNS + 1):
        await logs.append(log, [(turn, StepKind.MODEL, 0, trajectory_pb2.ModelCall())])
    logs.forget(episode)
    one, other = await asyncio.gather(logs.open(episode), logs.open(episode))
    for read in (one, other, await logs.open(episode)):
        assert [step.turn for step in read.steps] == [*range(1, TURNS + 1)]


async def test_what_another_attempt_did_not_store_is_stored(engine: AsyncEngine) -> None:
    """It had one of the turn's answers, and this attempt has both: the other one is paid, too."""
    store, episode = StepStore(engine), await queued_episode(engine)
    here, there = (StepLogs(store, Settlements(store)) for _ in range(2))
    log, others = await here.open(episode), await there.open(episode)
    first, second = (trajectory_pb2.ToolInvocation(model=name) for name in ("first", "second"))
    await there.append(others, [(1, StepKind.TOOL, 0, first)])
    repeated = trajectory_pb2.ToolInvocation(model="repeated")
    await here.append(log, [(1, StepKind.TOOL, 0, repeated), (1, StepKind.TOOL, 1, second)])
    assert log.tool_calls == {1: {0: first, 1: second}}
    assert (await there.open(episode)).tool_calls == log.tool_calls


async def test_two_attempts_of_one_worker_may_store_the_same_step(engine: AsyncEngine) -> None:
    store, episode = StepStore(engine), await queued_episode(engine)
    logs = StepLogs(store, Settlements(store))
    log = await logs.open(episode)
    step = (1, StepKind.MODEL, 0, trajectory_pb2.ModelCall())
    await asyncio.gather(logs.append(log, [step]), logs.append(log, [step]))
    assert [one.sequence for one in log.steps] == [1]


@pytest.mark.parametrize("events", [0, 1])
async def test_a_step_that_was_not_stored_is_not_taken_for_stored(
    engine: AsyncEngine, events: int
) -> None:
    """Its reference is gone: its episode, or a body it shared with one that was forgotten."""
    logs, episode = StepLogs(StepStore(engine), Settlements(StepStore(engine))), new_id()
    log = await logs.open(episode)
    owed = [Event("acme", EventType.APPROVAL_REQUESTED, new_id(), {})] * events
    with pytest.raises(TransactionConflict):
        await logs.append(log, [(1, StepKind.MODEL, 0, trajectory_pb2.ModelCall())], owed)


LISTENERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND query ILIKE 'LISTEN%'"
)


async def test_news_are_heard_and_a_lost_connection_is_told(engine: AsyncEngine) -> None:
    heard, missed = asyncio.Queue[str](), asyncio.Queue[None]()
    notifications = Notifications(
        engine, [Listener(CHANNEL, heard.put_nowait, lambda: missed.put_nowait(None))]
    )
    await notifications.keep_listening()
    await missed.get()
    settlements, episode = Settlements(StepStore(engine)), new_id()
    settlements.notify(episode)
    await settlements.flush()
    assert await heard.get() == episode
    async with engine.begin() as connection:
        await connection.execute(text(LISTENERS))
    with pytest.raises(Exception, match=r"connection|another operation"):
        # The server ends the connection a moment after it said so.
        while True:
            await notifications.keep_listening()
    assert missed.empty()
    await notifications.keep_listening()
    await missed.get()
    await notifications.close()


async def test_who_could_not_listen_listens_later(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby takes no LISTEN, and keeps its connections when it is promoted."""

    async def on_standby(*_: object) -> None:
        raise asyncpg.ReadOnlySQLTransactionError("cannot execute LISTEN during recovery")

    heard, missed = asyncio.Queue[str](), asyncio.Queue[None]()
    notifications = Notifications(
        engine, [Listener(CHANNEL, heard.put_nowait, lambda: missed.put_nowait(None))]
    )
    with monkeypatch.context() as standby:
        standby.setattr(asyncpg.Connection, "add_listener", on_standby)
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await notifications.keep_listening()
    await notifications.keep_listening()
    async with asyncio.timeout(10):
        await missed.get()
    await notifications.close()
