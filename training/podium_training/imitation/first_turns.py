"""First turns of tasks that were never played, drawn from every family alike.

Whom to ask first needs no episode: a question is put under the tools and prices of one that was
played, under several vectors, and the demonstrator says whom it would ask. Episodes are as unequal
as the tasks that were drawn, and what is rare in them is not learnt.

Most tasks are those whose choice the vectors change: to like a specialist changes it in the
specialist's own families alone, and tasks of all families teach that it changes nothing.
What is nearly as good is left out: which of two that is, no small model reads off a prompt.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, cycle, islice
from random import Random
from typing import Self, TypeVar

from google.protobuf.duration_pb2 import Duration
from transformers import PreTrainedTokenizerBase

from podium.episodes.v1.trajectory_pb2 import ModelCall, Trajectory, Turn
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1.policy_pb2 import PreferenceVector
from podium_training.experts.pool import Pool, read_pool
from podium_training.grpo.config import InvalidConfig
from podium_training.imitation.config import FirstTurnsConfig
from podium_training.imitation.contrast import choice, differing, first_turn
from podium_training.imitation.demonstrated_turn import Demonstrator
from podium_training.imitation.likings import draw_vectors, weighed
from podium_training.imitation.offers import NothingToLearn, Offers
from podium_training.imitation.preference_pairs import Pair
from podium_training.imitation.rows import Row, rows_of
from podium_training.imitation.solutions import NoClearChoice, Solutions
from podium_training.tasks.files import read_train_tasks
from podium_training.tasks.task import Task

Item = TypeVar("Item")


def in_turn(items: Iterable[Item], family: Callable[[Item], str], random: Random) -> Iterator[Item]:
    """Yields one of each family in turn, without end, so that rare ones come as often as others."""
    families: dict[str, list[Item]] = defaultdict(list)
    for each in items:
        families[family(each)].append(each)
    for of_family in families.values():
        random.shuffle(of_family)
    return chain.from_iterable(zip(*(cycle(each) for each in families.values()), strict=False))


# Of an episode that begins.
TIME_LEFT = Duration(seconds=120)
# Draws of a task's vectors, at most, until its choice differs.
TRIES = 2
# Of expected reward, by which a choice is better than all others.
MARGIN = 0.1
# Tasks that are looked at for each of a list's, and the share of turns that differ.
DRAWN = 2
DIFFERING_SHARE = 2 / 3
# What is learnt is the whole distribution.
SAMPLING = orchestrator_pb.Sampling(temperature=1.0)


@dataclass(frozen=True)
class Shape:
    """The shape of turns that share a list of tools and prices."""

    tasks: int = 18
    choices: int = 3
    """Turns of each task, at most."""
    liked: tuple[str, ...] = ()
    """Models that are liked; all, where none is named."""

    @property
    def turns(self) -> int:
        return self.tasks * self.choices


def first_turns(
    tasks: Sequence[Task], offers: Offers, shape: Shape, demonstrator: Demonstrator, random: Random
) -> Iterator[Trajectory]:
    """Yields the first turns of one list after the other, without end.

    Those with the same liking follow each other. Raises NothingToLearn where the demonstrator
    knows no task, or prefers no way clearly.
    """
    expert = offers.expert
    known = [task for task in tasks if demonstrator.solutions.knows(task)]
    if not known:
        raise NothingToLearn("no task has a solution and a question of one line: give some")
    asking = in_turn(known, lambda task: task.family, random)
    while True:
        drawn = list(islice(asking, DRAWN * shape.tasks))
        host = offers.draw(drawn[: shape.tasks], random)
        liked = [f"{expert}/{model}" for model in shape.liked] or _models(host, expert)
        vectors = draw_vectors(liked, random)
        of_tasks = [
            differing(_asked(task, host, vectors, expert, demonstrator), expert, shape.choices)
            for task in drawn
        ]
        ordered = _ordered(of_tasks, expert, round(shape.turns * DIFFERING_SHARE))
        turns = list(islice(cycle(chain.from_iterable(ordered)), shape.turns))
        if not turns:
            raise NothingToLearn(f"in none of {len(drawn)} tasks is one way clearly the best")
        yield from sorted(turns, key=lambda turn: list(turn.preferences.tools))


def _models(host: Trajectory, expert: str) -> list[str]:
    [asked] = (tool for tool in host.tools if tool.name == expert)
    return [f"{expert}/{each.model_alias}" for each in asked.estimates]


def _ways(turns: Sequence[Trajectory], expert: str) -> int:
    return len({choice(each, expert) for each in turns})


def _asked(
    task: Task,
    host: Trajectory,
    vectors: Callable[[], list[Pair]],
    expert: str,
    demonstrator: Demonstrator,
) -> list[Trajectory]:
    """The task's first turns with a clear choice, which the vectors change if such are found."""
    turns: list[Trajectory] = []
    for _ in range(TRIES):
        episodes = [_under(host, pair, expert) for pair in vectors()]
        turns = [turn for each in episodes if (turn := _first_turn(task, each, demonstrator))]
        if _ways(turns, expert) > 1:
            break
    return turns


def _ordered(
    of_tasks: Sequence[list[Trajectory]], expert: str, count: int
) -> list[list[Trajectory]]:
    """First the tasks that lead to most choices, as many as make so many turns, then the others.

    Of the first, one turn for each choice: likings that change nothing hide those that do.
    """
    ordered = sorted(of_tasks, key=lambda turns: -_ways(turns, expert))
    differ: list[list[Trajectory]] = []
    while ordered and _ways(ordered[0], expert) > 1 and sum(map(len, differ)) < count:
        turns = ordered.pop(0)
        differ.append(turns[: _ways(turns, expert)])
    return [*differ, *ordered]


def _under(host: Trajectory, pair: Pair, expert: str) -> Trajectory:
    liked = {name.rpartition("/")[2]: weight for name, weight in pair.tools.items()}
    tools = [weighed(tool, liked) if tool.name == expert else tool for tool in host.tools]
    episode = Trajectory()
    episode.CopyFrom(host)
    del episode.tools[:], episode.turns[:]
    episode.tools.extend(tools)
    episode.tool_names[:] = [*(tool.name for tool in tools), *pair.tools]
    episode.features.tool_call_counts[:] = [0] * len(episode.tool_names)
    episode.preferences.CopyFrom(
        PreferenceVector(
            outcome=pair.outcome, compute=pair.compute, latency=pair.latency, tools=pair.tools
        )
    )
    episode.instruction = pair.instruction
    return episode


def _first_turn(task: Task, episode: Trajectory, demonstrator: Demonstrator) -> Trajectory | None:
    """The episode, had it been of this task, as far as its choice; None where none is clear."""
    request = orchestrator_pb.NextActionRequest(
        key=f"{task.id}/1/model/0",
        task=task.question,
        instruction=episode.instruction,
        tools=episode.tools,
        preferences=episode.preferences,
        sampling=SAMPLING,
        time_left=TIME_LEFT,
    )
    try:
        response = demonstrator.next_action(request)
    except NoClearChoice:
        return None
    episode.task_id, episode.task = task.id, task.question
    episode.turns.append(Turn(number=1, model_call=ModelCall(response=response)))
    return episode


@dataclass(frozen=True)
class FirstTurns:
    """The parts of first turns."""

    wanted: FirstTurnsConfig
    tasks: Sequence[Task]
    pool: Pool

    @classmethod
    def read(cls, wanted: FirstTurnsConfig) -> Self:
        tasks, pool = read_train_tasks(wanted.tasks), read_pool(wanted.experts)
        if unknown := set(wanted.specialists) - {each.alias for each in pool.experts}:
            raise InvalidConfig(
                f"first_turns.specialists: {wanted.experts} has no model {min(unknown)};"
                " name its own"
            )
        return cls(wanted, tasks, pool)

    def rows(
        self, episodes: Sequence[Trajectory], tokenizer: PreTrainedTokenizerBase, random: Random
    ) -> Iterator[Row]:
        """First turns under the tools and prices of episodes, as far as their choice.

        Raises NothingToLearn.
        """
        wanted = self.wanted
        solutions = Solutions(self.tasks, self.pool, MARGIN, decided=wanted.decided)
        demonstrator = Demonstrator(solutions, tokenizer)
        offers = Offers(episodes, wanted.tool)
        shapes = [Shape(), Shape(liked=wanted.specialists)]
        drawn = [first_turns(self.tasks, offers, shape, demonstrator, random) for shape in shapes]
        # One of either kind in turn.
        turns = chain.from_iterable(zip(*drawn, strict=True))
        cut = (first_turn(each, wanted.tool, tokenizer) for each in islice(turns, wanted.count))
        return rows_of(cut, wanted.weight)
