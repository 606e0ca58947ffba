"""Runs tasks as episodes, a few at a time, and watches them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import uuid_utils

from podium.episodes.v1 import episode_pb2, episode_service_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb2
from podium.registry.v1 import tool_registry_service_pb2
from podium_cli.demo.outcomes import Outcome
from podium_cli.demo.tasks import Task, tools_by_kind
from podium_cli.episodes.following import cancel
from podium_cli.output import Output
from podium_kit.client.gateway import Gateway
from podium_kit.concurrency import in_parallel
from podium_kit.wire import (
    duration_from_proto,
    duration_to_proto,
    enum_word,
    optional_money_from_proto,
    timestamp_from_proto,
)

COMPLETION_TOKENS_MAX = 256

# Called with a task and its current step.
Progress = Callable[[Task, str], None]


@dataclass(frozen=True)
class Effort:
    """What a task may take; the defaults are those of `podium demo`."""

    turn_limit: int = 6
    time_limit_s: float = 90
    tools: int = 6
    """Offered per task, those that solve it among them."""
    at_once: int = 4

    def limits(self) -> episode_pb2.EpisodeSpec:
        """What every episode of one run has in common."""
        return episode_pb2.EpisodeSpec(
            turn_limit=self.turn_limit,
            time_limit=duration_to_proto(self.time_limit_s),
            # A small model that has lost its way writes until it is stopped.
            sampling=orchestrator_pb2.Sampling(max_tokens=COMPLETION_TOKENS_MAX),
            labels={"demo": str(uuid_utils.uuid7())},
        )


async def solve(
    gateway: Gateway, output: Output, tasks: Sequence[Task], effort: Effort, progress: Progress
) -> list[Outcome]:
    """One outcome per task, in their order. Raises Rejected, Unreachable."""
    reply = await gateway.all("/v1/tools", tool_registry_service_pb2.ListToolsResponse)
    known = [tool.spec.name for tool in reply.tools]
    offered = tools_by_kind(tasks, known, effort.tools)
    solver = Solver(gateway, output, offered, effort.limits())
    return await solver.solve(tasks, effort.at_once, progress)


@dataclass
class _Steps:
    """What the events of one episode add up to."""

    model: str = ""
    tools: list[str] = field(default_factory=list)
    failed_calls: int = 0
    model_s: float = 0.0
    tools_s: float = 0.0

    def add(self, event: episode_pb2.EpisodeEvent) -> str:
        """Takes an event and says what the episode does next."""
        match event.WhichOneof("event"):
            case "action_decided":
                self.model = event.action_decided.model_version
                self.model_s += duration_from_proto(event.action_decided.latency)
                calls = event.action_decided.action.tool_calls.calls
                self.tools += [call.tool_name for call in calls]
                names = ", ".join(call.tool_name for call in calls)
                return f"turn {event.turn}: {names or 'deciding'}"
            case "tool_returned":
                self.tools_s += duration_from_proto(event.tool_returned.latency)
                self.failed_calls += event.tool_returned.observation.HasField("failure")
                return f"turn {event.turn + 1}: deciding"
            case _:
                return "turn 1: deciding"


class Solver:
    """Solves tasks through the gateway, as any application would."""

    def __init__(
        self,
        gateway: Gateway,
        output: Output,
        offered: Mapping[str, tuple[str, ...]],
        limits: episode_pb2.EpisodeSpec,
    ) -> None:
        """`offered` names the tools by kind of task; `limits` holds for every task."""
        self._gateway = gateway
        self._output = output
        self._offered = offered
        self._limits = limits

    async def solve(self, tasks: Sequence[Task], at_once: int, progress: Progress) -> list[Outcome]:
        """One outcome per task, in their order. Raises Rejected, Unreachable."""
        return await in_parallel([partial(self._solve, task, progress) for task in tasks], at_once)

    async def _solve(self, task: Task, progress: Progress) -> Outcome:
        episode_id = str(uuid_utils.uuid7())
        spec = episode_pb2.EpisodeSpec(
            task=task.question, tool_names=self._offered[task.kind], labels={"task": task.id}
        )
        spec.MergeFrom(self._limits)
        progress(task, "starting")
        try:
            await self._gateway.post(
                "/v1/episodes",
                episode_service_pb2.StartEpisodeRequest(episode_id=episode_id, spec=spec),
                episode_service_pb2.StartEpisodeResponse,
            )
            outcome = await self._watch(task, episode_id, progress)
        except asyncio.CancelledError:
            # Episodes are durable: without this it would resume at the next start.
            await cancel(self._gateway, episode_id, self._output)
            raise
        progress(task, "")
        return outcome

    async def _watch(self, task: Task, episode_id: str, progress: Progress) -> Outcome:
        steps, episode = _Steps(), episode_pb2.Episode()
        async for event in self._gateway.events(episode_id):
            progress(task, steps.add(event))
            episode = event.finished.episode
        return _outcome(task, episode, steps)


def _outcome(task: Task, episode: episode_pb2.Episode, steps: _Steps) -> Outcome:
    return Outcome(
        task=task,
        episode_id=episode.id,
        model=steps.model,
        answer=episode.answer,
        right=task.verifier.judge(episode.answer).solved,
        stop_reason=enum_word(episode_pb2.StopReason.Name(episode.stop_reason), "STOP_REASON_"),
        tools_called=tuple(steps.tools),
        failed_calls=steps.failed_calls,
        turns=episode.turn_count,
        cost=optional_money_from_proto(episode.cost),
        model_s=steps.model_s,
        tools_s=steps.tools_s,
        start=timestamp_from_proto(episode.create_time),
        end=timestamp_from_proto(episode.end_time),
    )
