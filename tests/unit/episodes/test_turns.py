import asyncio
import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodes.execution.call_tools import rejected
from episodes.execution.decide import explores, next_action_request
from episodes.execution.executor import ExecutionLimits
from episodes.execution.outcomes import Finished, Outcome, Released
from episodes.execution.verify import AnswerJudge
from episodes.keys import StepKind
from episodes.models import EpisodeState, Progress, Step, StopReason, StoredEpisode
from episodes.queue.leased_episodes import LeasedEpisodes
from episodes.queue.store import LeasedRow, QueuedEpisode
from episodes.step_log.log import StepLog
from episodes.step_log.running_episode import RunningEpisode
from podium.episodes.v1 import check_pb2, episode_pb2, trajectory_pb2
from podium.ledger.v1 import hold_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import toolset_pb2
from podium_kit.failures import FailureKind
from podium_kit.verifiers import Verdict
from podium_kit.verifiers.text_matches import NumericMatch
from unit.episodes.stored_episodes import ID, stored_episode

TURNS, LONG_TURNS = 5, 3


class Work:
    def __init__(self) -> None:
        self.taken: list[int] = []
        self.handed: list[str] = []
        self.released: list[str] = []

    def forget(self, _: str) -> None:
        pass

    def cache(self, stored: Any) -> Any:
        return SimpleNamespace(id=stored.new.episode_id, stored=stored)

    async def run(self, _: Any, limits: ExecutionLimits, *, is_retry: bool) -> Outcome:
        assert not is_retry
        for turn in range(1, TURNS):
            self.taken.append(turn)
            if reason := limits.release_reason(turn):
                return Released(turn, reason)
        return Finished(StopReason.ANSWERED, settled=True)

    async def hand_over(self, new: Any, ending: Finished | None = None) -> None:
        assert ending is None
        self.handed.append(new.episode_id)

    async def release(self, ids: list[str], _: float) -> None:
        self.released += ids


async def work_on(
    *,
    drains: bool = False,
    handed_over: bool = False,
    long_after_s: float = 30.0,
    long_turns: int = 12,
) -> Work:
    work: Any = Work()
    work.turns = work.episodes = work.logs = work
    leased = LeasedEpisodes(
        executor=work,
        handover=work,
        leases=work,
        drains=lambda: drains,
        long_after_s=long_after_s,
        long_turns=long_turns,
    )
    since = asyncio.get_running_loop().time()
    new: Any = SimpleNamespace(
        episode_id="e", turn_limit=9, time_limit_s=60.0, membership=SimpleNamespace(size=1)
    )
    stored = StoredEpisode(new, datetime.now(UTC), EpisodeState.PENDING, Progress())
    item = QueuedEpisode(stored, handed_over)
    await leased.do(LeasedRow("e", "acme", item, 1, since, asyncio.Event()))
    return cast(Work, work)


async def test_a_short_episode_ends_where_it_began() -> None:
    work = await work_on()
    assert (work.taken, work.handed, work.released) == ([1, 2, 3, 4], [], [])


async def test_a_workflow_continues_an_episode_of_many_turns() -> None:
    work = await work_on(long_turns=LONG_TURNS)
    assert (work.taken, work.handed) == ([1, 2, 3], ["e"])


async def test_a_workflow_continues_an_old_episode_after_its_turn() -> None:
    work = await work_on(long_after_s=-1.0)
    assert (work.taken, work.handed) == ([1], ["e"])


async def test_the_next_worker_continues_what_a_draining_one_leaves() -> None:
    work = await work_on(drains=True)
    assert (work.taken, work.handed, work.released) == ([1], [], ["e"])


async def test_an_episode_that_was_being_handed_over_is() -> None:
    work = await work_on(handed_over=True)
    assert (work.taken, work.handed) == ([], ["e"])


class OneLog:
    def __init__(self) -> None:
        action = orchestrator_pb.Action(final_answer="42")
        call = trajectory_pb2.ModelCall(response=orchestrator_pb.NextActionResponse(action=action))
        self.log = StepLog(ID)
        self.log.add([Step(ID, 1, 1, StepKind.MODEL, 0, call.SerializeToString())])
        self.judged: list[check_pb2.Judgement] = []

    async def open(self, *_: object) -> StepLog:
        return self.log

    async def append(self, _: StepLog, bodies: list[tuple[Any, ...]]) -> None:
        self.judged += [body[-1] for body in bodies]


async def test_a_worker_works_on_while_an_answer_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    works_on = threading.Event()
    monkeypatch.setattr(NumericMatch, "judge", lambda *_: Verdict.of(works_on.wait(10), "seen"))
    check = check_pb2.Check(verifier="numeric", parameters_json='{"expected": 42}')
    spec = episode_pb2.EpisodeSpec(task="add", check=check)
    nowhere: Any = None
    logs: Any = OneLog()
    asyncio.get_running_loop().call_soon(works_on.set)
    episode = RunningEpisode(stored_episode(), spec, toolset_pb2.Toolset())
    assert await AnswerJudge(nowhere, logs, nowhere).judge_without_calls(episode, 1)
    assert [each.score for each in logs.judged] == [1.0]


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (hold_pb2.REJECTION_REASON_BUDGET_EXHAUSTED, FailureKind.BUDGET_EXHAUSTED),
        (hold_pb2.REJECTION_REASON_UNKNOWN_PRICE, FailureKind.DENIED_BY_POLICY),
    ],
)
def test_a_rejection_keeps_its_reason(
    reason: hold_pb2.RejectionReason.ValueType, kind: FailureKind
) -> None:
    failure = rejected(hold_pb2.Rejection(reason=reason, message="why"))
    assert (failure.kind, failure.message) == (kind, "why")


STATELESS, TEMPLATE = orchestrator_pb.PROMPT_MODE_STATELESS, orchestrator_pb.PROMPT_MODE_TEMPLATE


@pytest.mark.parametrize(
    ("asked", "max_tokens", "context", "expected"),
    [
        (0, 0, 0, (TEMPLATE, 4096)),
        (0, 0, 6000, (TEMPLATE, 3000)),
        (0, 300, 6000, (TEMPLATE, 300)),
        (STATELESS, 0, 0, (STATELESS, 512)),
    ],
)
def test_an_episode_that_names_no_prompt_mode_has_the_models_and_room_for_its_thoughts(
    asked: int, max_tokens: int, context: int, expected: tuple[int, int]
) -> None:
    spec = episode_pb2.EpisodeSpec(
        prompt_mode=orchestrator_pb.PromptMode.ValueType(asked),
        sampling=orchestrator_pb.Sampling(max_tokens=max_tokens),
    )
    episode = RunningEpisode(stored_episode(), spec, toolset_pb2.Toolset())
    model = orchestrator_pb.Model(prompt_mode=TEMPLATE, context_tokens=context)
    request = next_action_request(episode, StepLog(ID), 1, model, must_answer=False)
    assert (request.prompt_mode, request.sampling.max_tokens) == expected


@pytest.mark.parametrize(
    ("share", "asked", "sampled"),
    [(1.0, None, 1.0), (1.0, 0.0, 0.0), (1.0, 0.7, 0.7), (0.0, None, None)],
)
def test_an_exploring_episode_is_sampled_unless_its_request_says_otherwise(
    share: float, asked: float | None, sampled: float | None
) -> None:
    spec = episode_pb2.EpisodeSpec(sampling=orchestrator_pb.Sampling(temperature=asked))
    episode = RunningEpisode(stored_episode(), spec, toolset_pb2.Toolset(explore=share))
    model, log = orchestrator_pb.Model(), StepLog(ID)
    sampling = next_action_request(episode, log, 1, model, must_answer=False).sampling
    assert (sampling.temperature if sampling.HasField("temperature") else None) == sampled


@given(st.uuids(), st.floats(0, 1), st.floats(0, 1))
def test_who_explores_at_a_share_explores_at_a_higher_one(
    episode: UUID, one: float, other: float
) -> None:
    lower, higher = sorted([one, other])
    assert explores(str(episode), higher) or not explores(str(episode), lower)
    assert explores(str(episode), 1.0) and not explores(str(episode), 0.0)


def test_as_many_explore_as_are_meant_to() -> None:
    found = sum(explores(str(number), 0.1) for number in range(10_000))
    assert 900 < found < 1_100
