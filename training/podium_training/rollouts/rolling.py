"""Runs planned groups through the gateway, as any application would, so many at once.

A run keeps nothing of its own: the platform knows every episode by the id the plan gave
it, so whatever is started again continues where it is, or is there already.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

import tenacity

from podium.episodes.v1 import check_pb2, episode_pb2, episode_service_pb2, trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import policy_service_pb2, tool_pb2, tool_registry_service_pb2
from podium_kit.client.gateway import Gateway, Unreachable, segment
from podium_kit.client.rejections import Rejected
from podium_kit.limits.concurrency import in_parallel
from podium_kit.money import Money
from podium_kit.wire import (
    duration_from_proto,
    duration_to_proto,
    enum_word,
    optional_money_from_proto,
)
from podium_training.gate import Evaluated
from podium_training.rollouts import RolloutLimits
from podium_training.rollouts.evaluating import evaluated
from podium_training.rollouts.plan import Group, Rollout
from podium_training.tasks.task import Task

P = ParamSpec("P")
T = TypeVar("T")
# Behaviour log-probabilities are those of the whole distribution only where none of it is cut off.
TOP_P = 1.0
# A gateway that starts again, a tenant's limit that others' episodes reach: one of thousands of
# requests that comes then must not end the run. Ten minutes at least.
ATTEMPTS_MAX, PAUSE_MAX_S = 64, 10.0

# Called with every episode that has ended.
Progress = Callable[["Rolled"], None]


@dataclass(frozen=True)
class Rolled:
    group: Group
    rollout: Rollout
    stop_reason: str
    score: float | None
    """None means unjudged; `reason` says why."""
    reason: str
    cost: Money | None
    latency_s: float
    evaluated: Evaluated | None = None
    """Figures that the gate compares; None for an episode in which no model answered."""


@dataclass(frozen=True)
class Roller:
    """Runs rollouts; `limits` holds for every one of them."""

    gateway: Gateway
    limits: RolloutLimits
    run_id: str
    agent: str = ""
    """Agent whose budget pays for the episodes; "" for the caller's own alone."""

    async def roll(
        self,
        groups: Sequence[Group],
        at_once: int,
        progress: Progress,
        wanted: Callable[[], bool] = lambda: True,
    ) -> list[Rolled]:
        """One result per episode, group by group. Raises Rejected, Unreachable.

        Once they are no longer wanted none is started; those in flight end.
        """

        async def one(group: Group, rollout: Rollout) -> Rolled | None:
            if not wanted():
                return None
            rolled = await self._roll(group, rollout)
            progress(rolled)
            return rolled

        jobs = [partial(one, group, rollout) for group in groups for rollout in group.rollouts]
        return [each for each in await in_parallel(jobs, at_once) if each is not None]

    async def _roll(self, group: Group, rollout: Rollout) -> Rolled:
        await run_episode(self.gateway, rollout.episode_id, self._spec(group, rollout))
        path = f"/v1/episodes/{segment(rollout.episode_id)}/trajectory"
        found = await retried(self.gateway.get, path, episode_service_pb2.GetTrajectoryResponse)
        return _rolled(group, rollout, found.trajectory)

    def _spec(self, group: Group, rollout: Rollout) -> episode_pb2.EpisodeSpec:
        spec = episode_pb2.EpisodeSpec(
            task=group.task.question,
            policy=group.policy,
            tool_names=group.tool_names,
            price_factors=group.price_factors,
            group=episode_pb2.Group(
                id=group.id,
                size=len(group.rollouts),
                sample_index=rollout.sample_index,
                task_id=group.task.id,
            ),
            check=_check(group.task),
            replay_of=group.task.replay_of,
            labels={
                "run": self.run_id,
                "family": group.task.family,
                "split": group.task.split,
                **({"agent": self.agent} if self.agent else {}),
            },
        )
        spec.MergeFrom(_spec_of(self.limits))
        return spec


async def run_episode(gateway: Gateway, episode_id: str, spec: episode_pb2.EpisodeSpec) -> None:
    """Starts the episode, unless it was started before, and waits for its end.

    Raises Rejected, Unreachable.
    """
    request = episode_service_pb2.StartEpisodeRequest(episode_id=episode_id, spec=spec)
    reply = await retried(
        gateway.post, "/v1/episodes", request, episode_service_pb2.StartEpisodeResponse
    )
    if reply.episode.state != episode_pb2.EPISODE_STATE_FINISHED:
        await retried(ended, gateway, episode_id)


async def ended(gateway: Gateway, episode_id: str) -> None:
    """Waits for the end of an episode. Raises Rejected, Unreachable."""
    async for _ in gateway.events(episode_id):
        pass


async def retried(send: Callable[P, Awaitable[T]], *given: P.args, **named: P.kwargs) -> T:
    """Sends a repeatable request again while only time can help.

    Raises Rejected, Unreachable.
    """
    again = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(_is_temporary),
        wait=tenacity.wait_exponential_jitter(multiplier=0.5, max=PAUSE_MAX_S),
        stop=tenacity.stop_after_attempt(ATTEMPTS_MAX),
        reraise=True,
    )
    return await again(send, *given, **named)


def _is_temporary(error: BaseException) -> bool:
    return isinstance(error, Unreachable | Rejected) and error.temporary


async def known_tools(gateway: Gateway, policies: Sequence[str]) -> dict[str, list[str]]:
    """Every tool a group can be offered under each of the policies, with its calls' SKUs.

    No policy means the tenant's. Raises Rejected, Unreachable.
    """
    reply = await gateway.all("/v1/tools", tool_registry_service_pb2.ListToolsResponse)
    tools = {tool.spec.name: skus_of(tool.spec) for tool in reply.tools}
    for policy in policies or [""]:
        request = policy_service_pb2.ExplainToolsetRequest(policy=policy)
        explained = await gateway.post(
            "/v1/policies/explain", request, policy_service_pb2.ExplainToolsetResponse
        )
        for decision in explained.decisions:
            if not decision.allowed:
                tools.pop(decision.name, None)
    return tools


def skus_of(spec: tool_pb2.ToolSpec) -> list[str]:
    skus = [spec.sku, *(model.sku for model in spec.connection.llm.models)]
    return [sku for sku in skus if sku]


def models_of(spec: tool_pb2.ToolSpec) -> dict[str, str]:
    """Names of the models that a tool asks, by alias; none of a tool without models."""
    return {model.alias: model.model for model in spec.connection.llm.models}


def _spec_of(limits: RolloutLimits) -> episode_pb2.EpisodeSpec:
    return episode_pb2.EpisodeSpec(
        model=limits.model,
        turn_limit=limits.turn_limit,
        time_limit=duration_to_proto(limits.time_limit_s),
        prompt_mode=orchestrator_pb.PromptMode.ValueType(limits.prompt_mode),
        # As versions are served that are trained on it, and as demonstrations are written.
        parallel_calls=1,
        sampling=orchestrator_pb.Sampling(
            temperature=limits.temperature, top_p=TOP_P, max_tokens=limits.max_tokens
        ),
    )


def _check(task: Task) -> check_pb2.Check:
    return check_pb2.Check(
        verifier=task.verifier,
        verifier_version=task.judge().version,
        parameters_json=json.dumps(task.parameters),
    )


def _rolled(group: Group, rollout: Rollout, found: trajectory_pb2.Trajectory) -> Rolled:
    judged = next(iter(found.outcomes), None)
    return Rolled(
        group=group,
        rollout=rollout,
        stop_reason=enum_word(episode_pb2.StopReason.Name(found.stop_reason), "STOP_REASON_"),
        score=judged.score if judged else None,
        reason=judged.explanation if judged else found.unjudged_reason,
        cost=optional_money_from_proto(found.features.cost),
        latency_s=duration_from_proto(found.features.latency),
        evaluated=evaluated(found),
    )
