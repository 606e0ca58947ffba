from decimal import Decimal

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.approvals.models import ApprovalPosition
from episodes.approvals.store import ApprovalStore
from episodes.keys import StepKind
from episodes.models import EpisodeState, Step
from episodes.step_log.store import StepStore
from episodes.step_log.store_client_results import ClientResultStore
from episodes.store import EpisodeFilter, EpisodeStore
from integration.episodes.queue_rows import queued_episode
from podium_kit.money import Money

LeasedRow = tuple[StepKind, int]
MODEL, VERIFIER = (StepKind.MODEL, 0), (StepKind.VERIFIER, 0)
CLIENT_CALLS = (StepKind.CLIENT_CALLS, 0)


def steps_of(episode: str, *taken: LeasedRow) -> list[Step]:
    return [
        Step(episode, sequence, 1, kind, index, f"{kind}{index}".encode())
        for sequence, (kind, index) in enumerate(taken, 1)
    ]


async def states(engine: AsyncEngine, episode: str) -> tuple[EpisodeState, list[EpisodeState]]:
    store, found = EpisodeStore(engine), []
    for state in EpisodeState:
        page, _ = await store.find("acme", EpisodeFilter(states=[state]), 50)
        found += [state for each in page if each.new.episode_id == episode]
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
    engine: AsyncEngine, taken: list[LeasedRow], state: EpisodeState
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
        await ApprovalStore(engine).decided(ApprovalPosition(decided, 1, index))
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
