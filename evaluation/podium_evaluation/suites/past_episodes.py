"""Tasks of past episodes: what people asked, with the verdicts that checks and people gave.

Only episodes that consent to training and that the caller may read become tasks, and only those
whose question stands by itself. What erasure or retention removed is in none.
"""

import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from podium.episodes.v1 import episode_pb2, episode_service_pb2, trajectory_pb2
from podium_evaluation.suites.questions import check_of
from podium_kit.client.gateway import Gateway, segment
from podium_kit.verifiers.text import normalized
from podium_training.rollouts.rolling import retried
from podium_training.tasks.task import Call, Split, Task

# Labels of episodes that no user asked for: of evaluations, and of runs of rollouts.
MADE = ("evaluation", "run")
# A replay leaves no effects to look at.
NOT_REPLAYED = ("state",)


@dataclass(frozen=True)
class EpisodeFilter:
    policy: str = ""
    """Name of the policy that they ran under; any by default."""
    since: datetime | None = None
    until: datetime | None = None
    """Times at which they were started; None for no bound."""
    labels: Mapping[str, str] = field(default_factory=dict)
    solved: bool = False
    """True for those alone that a check or the first feedback with a score calls solved."""
    count: int = 500
    judges: Sequence[str] = ()
    """Tools of kind llm for answers of many words, which are left out without any."""


@dataclass
class PastTasks:
    tasks: dict[str, Task] = field(default_factory=dict)
    """Tasks by id; of equal questions the newest with a verdict."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Episodes that became no task, by reason."""


async def past_tasks(gateway: Gateway, wanted: EpisodeFilter) -> PastTasks:
    """Raises Rejected, Unreachable."""
    found = PastTasks()
    async for episode in _listed(gateway, wanted):
        if len(found.tasks) >= wanted.count:
            break
        if reason := _unsuited(episode):
            found.left_out[reason] += 1
            continue
        if task_id(episode.spec.task) in found.tasks:
            found.left_out["asked again later"] += 1
            continue
        task = await _task(gateway, episode, wanted)
        if isinstance(task, str):
            found.left_out[task] += 1
        else:
            found.tasks[task.id] = task
    return found


def task_id(question: str) -> str:
    return f"past/{hashlib.sha256(normalized(question).encode()).hexdigest()[:16]}"


async def _listed(gateway: Gateway, wanted: EpisodeFilter) -> AsyncIterator[episode_pb2.Episode]:
    """Ended episodes, newest first."""
    query: dict[str, Any] = {"page_size": 500, "filter.states": "EPISODE_STATE_FINISHED"}
    query |= {f"filter.labels.{name}": value for name, value in wanted.labels.items()}
    if wanted.policy:
        query["filter.policies"] = wanted.policy
    if wanted.since:
        query["filter.start_time"] = wanted.since.isoformat()
    if wanted.until:
        query["filter.end_time"] = wanted.until.isoformat()
    token = ""
    while True:
        asked = partial(gateway.get, **query, page_token=token)
        page = await retried(asked, "/v1/episodes", episode_service_pb2.ListEpisodesResponse)
        for episode in page.episodes:
            yield episode
        token = page.next_page_token
        if not token:
            return


def _is_made(episode: episode_pb2.Episode) -> bool:
    spec = episode.spec
    labelled = any(name in spec.labels for name in MADE)
    return labelled or spec.HasField("parent") or bool(spec.replay_of)


def _unsuited(episode: episode_pb2.Episode) -> str:
    """Returns why the episode cannot be asked again; "" where it can."""
    spec = episode.spec
    if episode.content_withheld:
        return "not readable without the scope trajectories:read"
    if _is_made(episode):
        return "not asked by a user"
    if spec.history or spec.attachments or spec.client_tools or spec.answer_json_schema:
        return "needs its conversation, files, functions or schema"
    return ""


async def users_episodes(
    gateway: Gateway, wanted: EpisodeFilter
) -> AsyncIterator[tuple[trajectory_pb2.Trajectory, float | None]]:
    """Ended episodes that users started and the caller may read, newest first, with their scores.

    Raises Rejected, Unreachable.
    """
    async for episode in _listed(gateway, wanted):
        if not (episode.content_withheld or _is_made(episode)):
            found, trajectory = await _read(gateway, episode.id)
            yield trajectory, score_of(found, trajectory)


async def _read(
    gateway: Gateway, episode_id: str
) -> tuple[episode_pb2.Episode, trajectory_pb2.Trajectory]:
    path = f"/v1/episodes/{segment(episode_id)}"
    found = await retried(gateway.get, path, episode_service_pb2.GetEpisodeResponse)
    reply = await retried(
        gateway.get, f"{path}/trajectory", episode_service_pb2.GetTrajectoryResponse
    )
    return found.episode, reply.trajectory


async def _task(
    gateway: Gateway, episode: episode_pb2.Episode, wanted: EpisodeFilter
) -> Task | str:
    """The task, or why there is none."""
    found, trajectory = await _read(gateway, episode.id)
    if not trajectory.training_consent:
        return "without training consent"
    score = score_of(found, trajectory)
    if wanted.solved and score != 1:
        return "not solved"
    check = _check(found, trajectory, score, wanted.judges)
    if check is None:
        return "without a verdict on its answer" if score != 1 else "needs a judge"
    question = trajectory.task
    family = trajectory.labels.get("family", "") or trajectory.policy_name
    solution = _calls(trajectory) if score == 1 else None
    verifier, parameters = check
    return Task(
        id=task_id(question),
        family=family[:256],
        split=Split.HELD_OUT,
        question=question,
        verifier=verifier,
        parameters=parameters,
        solution=solution,
        replay_of=episode.id,
    )


def score_of(episode: episode_pb2.Episode, trajectory: trajectory_pb2.Trajectory) -> float | None:
    """The check's score, else the first that feedback gave; None without either."""
    if trajectory.outcomes:
        return trajectory.outcomes[0].score
    return next((each.score for each in episode.feedback if each.HasField("score")), None)


def _check(
    episode: episode_pb2.Episode,
    trajectory: trajectory_pb2.Trajectory,
    score: float | None,
    judges: Sequence[str],
) -> tuple[str, dict[str, object]] | None:
    own = episode.spec.check
    if own.verifier and own.verifier not in NOT_REPLAYED:
        return own.verifier, json.loads(own.parameters_json or "{}")
    if score != 1 or not trajectory.answer.strip():
        return None
    return check_of(trajectory.answer.strip(), judges)


def _calls(trajectory: trajectory_pb2.Trajectory) -> tuple[Call, ...]:
    return tuple(
        Call(call.observation.call.tool_name, json.loads(call.observation.call.arguments_json))
        for turn in trajectory.turns
        for call in turn.tool_invocations
        if not call.observation.HasField("failure")
    )
