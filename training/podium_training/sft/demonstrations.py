"""Rows to learn from: every model call of solved episodes, and first turns of questions."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random

from transformers import PreTrainedTokenizerBase

from podium.episodes.v1.trajectory_pb2 import Trajectory
from podium_training.curriculum.contrast import first_turn
from podium_training.curriculum.demonstrated_turn import Demonstrator
from podium_training.curriculum.offers import Offers
from podium_training.curriculum.questions import MARGIN, first_turns
from podium_training.curriculum.steps import Mix
from podium_training.demonstrations.solutions import Solutions
from podium_training.experts.pool import read_pool
from podium_training.sft.config import FirstTurnsConfig
from podium_training.tasks.files import read_train_tasks

# One task of so many is measured on and not learnt.
HELD_BACK = 50
# Questions that share a list of tools, and how many turns each has.
SHARING = Mix(tasks=18, choices=3)


@dataclass(frozen=True)
class Row:
    """One model call, in token ids; its completion is learnt."""

    prompt: Sequence[int]
    completion: Sequence[int]
    weight: float = 1.0
    held_back: bool = False

    def __len__(self) -> int:
        return len(self.prompt) + len(self.completion)


def rows_of(episodes: Iterable[Trajectory], weight: float = 1.0) -> Iterator[Row]:
    """Every call that has tokens."""
    for episode in episodes:
        held_back = zlib.crc32(episode.task_id.encode()) % HELD_BACK == 0
        for turn in episode.turns:
            said = turn.model_call.response
            prompt, completion = tuple(said.prompt_token_ids), tuple(said.completion_token_ids)
            if prompt and completion:
                yield Row(prompt, completion, weight, held_back)


def first_rows(
    episodes: Sequence[Trajectory],
    wanted: FirstTurnsConfig,
    tokenizer: PreTrainedTokenizerBase,
    random: Random,
) -> Iterator[Row]:
    """First turns under the tools and prices of episodes, as far as their choice.

    Raises NoCurriculum, InvalidPool and UserError.
    """
    tasks, pool = read_train_tasks(wanted.tasks), read_pool(wanted.experts)
    demonstrator = Demonstrator(Solutions(tasks, pool, MARGIN), tokenizer)
    offers = Offers(episodes, wanted.tool)
    # Any list of tools will do where a step has many: no time goes into the one that tells most.
    turns = first_turns(tasks, offers, SHARING, demonstrator, random, hosts=1)
    cut = (first_turn(each, wanted.tool, tokenizer) for each in islice(turns, wanted.count))
    return rows_of(cut, wanted.weight)
