"""What every step learns from.

Tasks under several vectors (see contrast.py), whole episodes with experts, and whole episodes
without (see shared_lists.py), so that doing is not forgotten: small steps of contrasts alone teach
choosing and cost copying. Contrasts of a step share their list of tools, too; they are of what was
played, or of questions that were not (see questions.py).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random
from typing import TypeVar

from podium.episodes.v1.trajectory_pb2 import Trajectory
from podium_training.curriculum.contrast import Tokenizer, contrasted, first_turn
from podium_training.curriculum.errors import NoCurriculum
from podium_training.curriculum.shared_lists import whole_episodes

Item = TypeVar("Item")


@dataclass(frozen=True)
class Mix:
    """Groups of one step."""

    tasks: int = 3
    """Contrasted tasks."""
    choices: int = 5
    """First turns of each of them."""
    asked: int = 1
    """Whole episodes with experts on offer."""
    own: int = 20
    """Whole episodes without."""
    lists: int = 2
    """Lists of tools that those read."""
    liked: tuple[str, ...] = ()
    """Models that are liked in questions; all, where none is named."""

    @property
    def contrasts(self) -> int:
        """First turns in a step."""
        return self.tasks * self.choices

    @property
    def groups(self) -> int:
        """All that a step learns from."""
        return self.contrasts + self.asked + self.own


def steps(
    episodes: Sequence[Trajectory],
    expert: str,
    mix: Mix,
    tokenizer: Tokenizer,
    random: Random,
    *,
    questions: Iterator[Trajectory] | None = None,
) -> Iterator[list[Trajectory]]:
    """One step after the other, without end. Raises NoCurriculum.

    Given first turns of questions, task by task and without end, those are contrasted.
    """
    asked = [each for each in episodes if expert in each.tool_names]
    alone = [each for each in episodes if expert not in each.tool_names]
    if not alone:
        raise NoCurriculum(f"no solved episode without {expert} is on the stream: play some")
    doing = whole_episodes(alone, mix.own, mix.lists, tokenizer, random)
    played = cycle(_shuffled(asked, random))
    lists = [OfList(questions, played)] if questions else _lists(asked, expert, mix, random)
    for of_list in cycle(lists):
        turns = islice(of_list.turns, mix.contrasts)
        yield [
            *(first_turn(each, expert, tokenizer) for each in turns),
            *islice(of_list.episodes, mix.asked),
            *next(doing),
        ]


@dataclass(frozen=True)
class OfList:
    """What is learnt of one list of tools, or of all; both are endless."""

    turns: Iterator[Trajectory]
    """Task by task, of which the first turns are contrasted."""
    episodes: Iterator[Trajectory]


def _lists(asked: Iterable[Trajectory], expert: str, mix: Mix, random: Random) -> list[OfList]:
    lists: dict[str, list[Trajectory]] = defaultdict(list)
    for each in asked:
        lists[repr((each.tool_names, sorted(each.price_factors.items())))].append(each)
    found = []
    for episodes in lists.values():
        tasks = _shuffled(contrasted(episodes, expert, mix.choices), random)
        # Fewer would come twice in one step.
        if len(tasks) >= mix.tasks:
            turns = cycle([turn for task in tasks for turn in task])
            found.append(OfList(turns, cycle(_shuffled(episodes, random))))
    if not found:
        raise NoCurriculum(
            f"no list of tools has {mix.tasks} tasks that are done differently under different"
            " policies: play them with --policies-per-task and --tool-subsets"
        )
    return found


def _shuffled(items: Iterable[Item], random: Random) -> list[Item]:
    found = list(items)
    random.shuffle(found)
    return found
