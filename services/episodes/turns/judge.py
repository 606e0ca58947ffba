"""Judges an answer by the episode's check, once it is given.

Every call a verifier needs is a durable step like any other: held, made, logged and
priced under a key of its own. What cannot be judged is recorded as unjudged, with the
reason; only a fault of the platform that may pass is raised, to be tried again.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio import activity

from episodes.checks import judged, unjudged, verifier_of
from episodes.keys import StepKind
from episodes.running_episode import RunningEpisode, RunningEpisodes
from episodes.steps.log import StepLog, StepLogs
from episodes.temporal.activity_errors import activity_errors
from episodes.temporal.heartbeats import heartbeats
from episodes.turns.answers import answer_of
from episodes.turns.attempts import attempt_at
from episodes.turns.verifier_calls import VerifierCalls
from episodes.workflows.episode import JUDGE_ANSWER
from episodes.workflows.payloads import JudgeInput
from podium.episodes.v1 import check_pb2
from podium_kit import telemetry
from podium_kit.rpc.identity import acting_as
from podium_kit.verifiers import InvalidVerifier, Unjudged, Verdict, Verifier

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JudgeActivity:
    """Judges answers."""

    episodes: RunningEpisodes
    logs: StepLogs
    calls: VerifierCalls

    @activity.defn(name=JUDGE_ANSWER)
    async def judge_answer(self, judge: JudgeInput) -> None:
        """Judges one answer, continuing where an earlier attempt stopped."""
        with activity_errors(), attempt_at(self.logs, judge.episode_id):
            async with heartbeats():
                episode = await self.episodes.get(judge.episode_id)
                with (
                    acting_as(episode.identity),
                    telemetry.episode_context(episode.id),
                    telemetry.span("judge", {"podium.verifier": episode.spec.check.verifier}),
                ):
                    steps = await self.logs.open(episode.id)
                    steps.again = activity.info().attempt > 1
                    if steps.judgement is None:
                        await self._judge(episode, steps, activity.info().scheduled_time)

    async def judge_without_calls(self, episode: RunningEpisode, turn: int) -> bool:
        """Judges the answer of a turn, if nobody needs to be asked; whether it is judged.

        Most verifiers make no call; one that does is left to the activity.
        """
        steps = await self.logs.open(episode.id, turn)
        if not episode.spec.HasField("check") or steps.judgement is not None:
            return True
        answer = answer_of(episode, steps, turn) or ""
        with suppress(InvalidVerifier):
            if verifier_of(episode.spec.check).calls(episode.spec.task, answer):
                return False
        await self._judge(episode, steps, datetime.now(UTC))
        return True

    async def _judge(self, episode: RunningEpisode, steps: StepLog, answer_time: datetime) -> None:
        turn = max(steps.model_calls)
        answer = answer_of(episode, steps, turn) or ""
        judgement = await self._judgement(episode, steps, turn, answer)
        judgement.answer_time.FromDatetime(answer_time)
        await self.logs.append(steps, [(turn, StepKind.JUDGEMENT, 0, judgement)])

    async def _judgement(
        self, episode: RunningEpisode, steps: StepLog, turn: int, answer: str
    ) -> check_pb2.Judgement:
        check = episode.spec.check
        try:
            verifier = verifier_of(check)
            results = [
                await self.calls.result(episode, steps, turn, index, call)
                for index, call in enumerate(verifier.calls(episode.spec.task, answer))
            ]
            # Answer and check are strangers'. Beside the loop, which has leases to renew meanwhile.
            return judged(verifier, await asyncio.to_thread(_verdict, verifier, answer, results))
        except (InvalidVerifier, Unjudged) as error:
            return unjudged(check, str(error))


def _verdict(verifier: Verifier, answer: str, results: Sequence[str]) -> Verdict:
    try:
        return verifier.judge(answer, results)
    except Unjudged:
        raise
    except Exception as error:
        log.exception("verifier %s crashed", verifier.name)
        raise Unjudged(f"the verifier crashed: {type(error).__name__}") from error
