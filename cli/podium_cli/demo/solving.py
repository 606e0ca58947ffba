import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import uuid_utils
import yaml

from podium.episodes.v1 import episode_pb2, episode_service_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb2
from podium.registry.v1 import tool_registry_service_pb2
from podium_cli.episodes.following import cancel
from podium_cli.output import Output
from podium_kit.client.gateway import Gateway
from podium_kit.limits.concurrency import in_parallel
from podium_kit.money import Money
from podium_kit.verifiers import InvalidVerifier, Verifier, load_verifier
from podium_kit.wire import (
    duration_from_proto,
    duration_to_proto,
    enum_word,
    optional_money_from_proto,
    timestamp_from_proto,
)
from podium_operations.documents import InvalidDocument


@dataclass(frozen=True)
class Task:
    id: str
    kind: str
    question: str
    verifier: Verifier
    # Tools that are known to lead to the answer.
    tools: tuple[str, ...]
    # Any of these is right, for people to read.
    answer: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    task: Task
    episode_id: str
    model: str
    answer: str
    right: bool
    stop_reason: str
    tools_called: tuple[str, ...]
    failed_calls: int
    turns: int
    cost: Money | None
    model_s: float
    tools_s: float
    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()


@dataclass(frozen=True)
class Accuracy:
    kind: str
    right: int
    total: int

    @property
    def share(self) -> float:
        return self.right / self.total


def accuracy_by_kind(outcomes: Sequence[Outcome]) -> list[Accuracy]:
    kinds = dict.fromkeys(outcome.task.kind for outcome in outcomes)
    return [
        accuracy(kind, [outcome for outcome in outcomes if outcome.task.kind == kind])
        for kind in kinds
    ]


def accuracy(name: str, outcomes: Sequence[Outcome]) -> Accuracy:
    return Accuracy(name, sum(outcome.right for outcome in outcomes), len(outcomes))


def load_tasks(folder: Path) -> list[Task]:
    return [task for path in sorted(folder.glob("*.yaml")) for task in _read(path)]


def choose(tasks: list[Task], count: int) -> list[Task]:
    """The first task of every kind, then the second of every kind, and so on."""
    kinds: dict[str, list[Task]] = {}
    for task in tasks:
        kinds.setdefault(task.kind, []).append(task)
    rounds = chain.from_iterable(zip_longest(*kinds.values()))
    return [task for task in rounds if task is not None][:count]


def tools_by_kind(
    tasks: Sequence[Task], known: Sequence[str], count: int
) -> dict[str, tuple[str, ...]]:
    """Chooses `count` tools for the tasks of each kind: those that solve them, and others.

    All tasks of a kind share the choice, so that their prompts share the engine's cache.
    """
    chosen = {}
    for number, kind in enumerate(dict.fromkeys(task.kind for task in tasks)):
        needed = {tool for task in tasks if task.kind == kind for tool in task.tools}
        # Every kind meets other distractors.
        turned = [*known[number:], *known[:number]]
        others = [tool for tool in turned if tool not in needed]
        chosen[kind] = (*sorted(needed), *others[: max(count - len(needed), 0)])
    return chosen


def tasks_of(document: Mapping[str, Any]) -> list[Task]:
    return [_task(document["kind"], fields) for fields in document["tasks"]]


def _read(path: Path) -> list[Task]:
    try:
        return tasks_of(yaml.safe_load(path.read_text()))
    except (KeyError, TypeError, InvalidVerifier) as error:
        raise InvalidDocument(path, f"is no list of tasks: {error}") from error


def _task(kind: str, fields: Mapping[str, Any]) -> Task:
    parameters = dict(fields["verifier"])
    verifier = load_verifier(parameters.pop("kind"), {"expected": fields["answer"], **parameters})
    tools = tuple(dict.fromkeys(step["tool"] for step in fields["solution"]))
    answer = tuple(map(str, fields["answer"]))
    return Task(fields["id"], kind, fields["question"], verifier, tools, answer)


COMPLETION_TOKENS_MAX = 256

# Called with a task and its current step.
Progress = Callable[[Task, str], None]


@dataclass(frozen=True)
class Effort:
    turn_limit: int = 6
    time_limit_s: float = 90
    tools: int = 6
    """Offered per task, those that solve it among them."""
    at_once: int = 4

    def limits(self) -> episode_pb2.EpisodeSpec:
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
    reply = await gateway.all("/v1/tools", tool_registry_service_pb2.ListToolsResponse)
    known = [tool.spec.name for tool in reply.tools]
    offered = tools_by_kind(tasks, known, effort.tools)
    solver = Solver(gateway, output, offered, effort.limits())
    return await solver.solve(tasks, effort.at_once, progress)


@dataclass
class _Steps:
    model: str = ""
    tools: list[str] = field(default_factory=list)
    failed_calls: int = 0
    model_s: float = 0.0
    tools_s: float = 0.0

    def add(self, event: episode_pb2.EpisodeEvent) -> str:
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
    def __init__(
        self,
        gateway: Gateway,
        output: Output,
        offered: Mapping[str, tuple[str, ...]],
        limits: episode_pb2.EpisodeSpec,
    ) -> None:
        self._gateway = gateway
        self._output = output
        self._offered = offered
        self._limits = limits

    async def solve(self, tasks: Sequence[Task], at_once: int, progress: Progress) -> list[Outcome]:
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
