"""The worker's copy of a step log has each step once, however many attempts read it."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncEngine

from embedded_servers import Database
from episodes.keys import StepKind
from episodes.steps.log import StepLogs
from episodes.steps.settlements import Settlements
from episodes.steps.store import StepStore
from integration.episodes.queue_rows import queued_episode
from podium.episodes.v1 import trajectory_pb2
from podium_kit.postgres.engine import open_engine

TURNS = 3


@pytest_asyncio.fixture
async def engine(database: Database) -> AsyncIterator[AsyncEngine]:
    engine = open_engine(await database("episodes"))
    yield engine
    await engine.dispose()


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
