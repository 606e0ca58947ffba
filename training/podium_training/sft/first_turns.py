"""First turns of questions, to learn beside whole episodes: whom to ask under which vector."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from random import Random
from typing import Self

from transformers import PreTrainedTokenizerBase

from podium.episodes.v1.trajectory_pb2 import Trajectory
from podium_training.demonstrations.solutions import Solutions
from podium_training.experts.pool import Pool, read_pool
from podium_training.first_turns.contrast import first_turn
from podium_training.first_turns.demonstrated_turn import Demonstrator
from podium_training.first_turns.offers import Offers
from podium_training.first_turns.questions import MARGIN, Shape, first_turns
from podium_training.grpo.config import InvalidConfig
from podium_training.sft.config import FirstTurnsConfig
from podium_training.sft.demonstrations import Row, rows_of
from podium_training.tasks.files import read_train_tasks
from podium_training.tasks.task import Task


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
