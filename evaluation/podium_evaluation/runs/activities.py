import asyncio
import math
import time
from dataclasses import dataclass, field
from functools import partial

from temporalio import activity

from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_evaluation.environments.programs import Environments
from podium_evaluation.runs.conversations import SPENT, Conversations
from podium_evaluation.runs.names import budget_name, path_of
from podium_evaluation.runs.payloads import EvaluationRun, TrialsOver
from podium_evaluation.runs.workflow import PLAY_TRIALS, TRIALS_AT_ONCE
from podium_kit.client.gateway import Gateway
from podium_kit.client.rejections import Rejected
from podium_kit.limits.concurrency import in_parallel
from podium_kit.verifiers.environment import EnvironmentCheck
from podium_training.rollouts.activities import working
from podium_training.rollouts.rolling import retried, run_episode
from podium_training.tasks.task import Split

PAGE_SIZE = 500
PAUSED_S = 1.0
# How long a run that was running is taken to be: not every start asks.
KNOWN_S = 1.0
TO_PLAY = (pb.TRIAL_STATE_PLANNED, pb.TRIAL_STATE_RUNNING)


class EvaluationActivities:
    """Repeatable: a trial that is over is not played again."""

    def __init__(self, gateway: Gateway, environments: Environments) -> None:
        self._gateway = gateway
        self._environments = environments

    @activity.defn(name=PLAY_TRIALS)
    async def play_trials(self, run: EvaluationRun) -> TrialsOver:
        async with working():
            found = await retried(
                self._gateway.get, path_of(run.evaluation_id), pb.GetEvaluationResponse
            )
            arms = {arm.name: arm for arm in found.evaluation.arms}
            control = RunControl(self._gateway, run)
            conversations = Conversations(self._gateway, run.evaluation_id, self._environments)
            player = Player(self._gateway, run.evaluation_id, arms, control, conversations)
            end = min(run.first + TRIALS_AT_ONCE, run.trial_count)
            for first in range(run.first, end, PAGE_SIZE):
                trials = await self._page(run, first, end)
                jobs = [partial(player.play, each) for each in trials if each.state in TO_PLAY]
                try:
                    await in_parallel(jobs, run.at_once)
                except Rejected as error:
                    if error.temporary:
                        raise
                    await control.end(f"an episode was rejected: {error.cause}"[:1000])
            if end == run.trial_count and not control.stopped:
                await control.end("")
            return TrialsOver(control.stopped)

    async def _page(self, run: EvaluationRun, first: int, end: int) -> list[pb.Trial]:
        reply = await retried(
            self._gateway.get,
            f"{path_of(run.evaluation_id)}/trials",
            pb.ListTrialsResponse,
            first_place=first,
            page_size=min(PAGE_SIZE, end - first),
            with_items="true",
        )
        return list(reply.trials)


@dataclass
class RunControl:
    """Admits another trial by the state of the run and its rate."""

    gateway: Gateway
    run: EvaluationRun
    stopped: bool = False
    _next_start: float = field(default_factory=time.monotonic)
    _admitted_until: float = -math.inf

    async def may_start(self) -> bool:
        await self._paced()
        while not self.stopped:
            if time.monotonic() < self._admitted_until:
                return True
            path = path_of(self.run.evaluation_id)
            found = await retried(self.gateway.get, path, pb.GetEvaluationResponse)
            if found.evaluation.state == pb.EVALUATION_STATE_RUNNING:
                self._admitted_until = time.monotonic() + KNOWN_S
                continue
            self.stopped = found.evaluation.state == pb.EVALUATION_STATE_ENDED
            if not self.stopped:
                await asyncio.sleep(PAUSED_S)
        return False

    async def end(self, reason: str) -> None:
        self.stopped = True
        body = {"state": pb.EvaluationState.Name(pb.EVALUATION_STATE_ENDED), "reason": reason}
        path = path_of(self.run.evaluation_id)
        await retried(self.gateway.patch, path, body, pb.UpdateEvaluationResponse)

    async def _paced(self) -> None:
        if not self.run.starts_per_minute:
            return
        now = time.monotonic()
        turn = max(self._next_start, now)
        self._next_start = turn + 60 / self.run.starts_per_minute
        await asyncio.sleep(turn - now)


@dataclass(frozen=True)
class Player:
    gateway: Gateway
    evaluation_id: str
    arms: dict[str, pb.EvaluationArm]
    control: RunControl
    conversations: Conversations

    async def play(self, trial: pb.Trial) -> None:
        # One that has begun continues to its end: what is spent on it is not wasted.
        if trial.state == pb.TRIAL_STATE_PLANNED and not await self.control.may_start():
            return
        if trial.item.check.verifier == EnvironmentCheck.name:
            reason = await self.conversations.play(trial, self._spec(trial))
            if reason and not self.control.stopped:
                await self.control.end(reason[:1000])
        else:
            await run_episode(self.gateway, trial.episode_id, self._spec(trial))
        reply = await retried(
            self.gateway.get,
            f"{path_of(self.evaluation_id)}/trials",
            pb.ListTrialsResponse,
            first_place=trial.place,
            page_size=1,
        )
        over = reply.trials[0]
        if over.state == pb.TRIAL_STATE_NOT_RUN and not self.control.stopped:
            await self.control.end(f"{SPENT}: {over.explanation}"[:1000])

    def _spec(self, trial: pb.Trial) -> episode_pb2.EpisodeSpec:
        arm = self.arms[trial.arm]
        spec = episode_pb2.EpisodeSpec(
            task=trial.item.question,
            check=trial.item.check,
            group=episode_pb2.Group(task_id=trial.item.id),
            # The agent is whose budget the run is; nothing is learnt from what is held out.
            labels={
                "evaluation": self.evaluation_id,
                "agent": budget_name(self.evaluation_id),
                "family": trial.item.family,
                "split": Split.HELD_OUT,
            },
            model=arm.model,
            policy=arm.policy,
            tool_names=arm.tool_names,
            turn_limit=arm.turn_limit,
            prompt_mode=arm.prompt_mode,
            sampling=arm.sampling,
            replay_of=trial.item.replay_of,
        )
        if arm.HasField("time_limit"):
            spec.time_limit.CopyFrom(arm.time_limit)
        if arm.HasField("budget"):
            spec.budget.CopyFrom(arm.budget)
        return spec
