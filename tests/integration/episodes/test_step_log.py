import asyncio

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.keys import StepKind
from episodes.step_log.log import StepLogs
from episodes.step_log.settlements import Settlements
from episodes.step_log.store import StepStore
from episodes.webhooks.models import Event, EventType
from integration.episodes.platform_under_test import new_id
from integration.episodes.queue_rows import queued_episode
from podium.episodes.v1 import trajectory_pb2
from podium_kit.postgres.engine import TransactionConflict

TURNS = 3


async def test_two_attempts_that_read_at_once_find_each_step_once(engine: AsyncEngine) -> None:
    """As a child's admission and the calls beside the child do, after a handover."""
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
    """What it refers to is gone: its episode, or a body it shared with one that was forgotten."""
    logs, episode = StepLogs(StepStore(engine), Settlements(StepStore(engine))), new_id()
    log = await logs.open(episode)
    owed = [Event("acme", EventType.APPROVAL_REQUESTED, new_id(), {})] * events
    with pytest.raises(TransactionConflict):
        await logs.append(log, [(1, StepKind.MODEL, 0, trajectory_pb2.ModelCall())], owed)
