import asyncio
import threading
from typing import Any

import pytest

from episodes.execution.verify import AnswerJudge
from episodes.keys import StepKind
from episodes.models import Step
from episodes.step_log.log import StepLog
from episodes.step_log.running_episode import RunningEpisode
from podium.episodes.v1 import check_pb2, episode_pb2, trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import toolset_pb2
from podium_kit.verifiers import Verdict
from podium_kit.verifiers.text_matches import NumericMatch
from unit.episodes.stored_episodes import ID, stored_episode


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


async def test_a_worker_works_on_while_an_answer_is_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
