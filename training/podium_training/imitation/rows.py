import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from transformers import PreTrainedTokenizerBase

from podium.episodes.v1.trajectory_pb2 import Trajectory
from podium_training.grpo.config import StreamConfig
from podium_training.grpo.data.convert import episode_from_proto, is_exemplary
from podium_training.grpo.data.envelopes import open_record
from podium_training.grpo.data.episodes import Limits, Rejected
from podium_training.grpo.data.stream import LogReader
from podium_training.tasks.splits import members
from podium_training.tasks.task import Split

# One task of so many is measured on and not learnt.
HELD_BACK = 50
UNSOLVED = "unsolved"


@dataclass(frozen=True)
class Row:
    prompt: Sequence[int]
    completion: Sequence[int]
    weight: float = 1.0
    held_back: bool = False

    def __len__(self) -> int:
        return len(self.prompt) + len(self.completion)


def solved_episodes(stream: StreamConfig, limits: Limits) -> tuple[list[Trajectory], Counter[str]]:
    """Returns the episodes of a topic that may be learnt from, and counts the reasons of the
    others.

    Ends when nothing has come for the stream's patience. Raises LogCut, BrokerUnavailable.
    """
    reader = LogReader(stream, stream.topic)
    found: list[Trajectory] = []
    left_out: Counter[str] = Counter()
    try:
        for record in reader.records(stream.patience_s):
            try:
                message = open_record(record)
                if not message.HasField("trajectory"):
                    continue
                solved = episode_from_proto(message.trajectory, limits).features.solved
            except Rejected as error:
                left_out[error.reason] += 1
                continue
            if solved:
                found.append(message.trajectory)
            else:
                left_out[UNSOLVED] += 1
    finally:
        reader.close()
    return found, left_out


def rows_of(episodes: Iterable[Trajectory], weight: float = 1.0) -> Iterator[Row]:
    for episode in episodes:
        held_back = zlib.crc32(episode.task_id.encode()) % HELD_BACK == 0
        for turn in filter(is_exemplary, episode.turns):
            response = turn.model_call.response
            prompt, completion = (
                tuple(response.prompt_token_ids),
                tuple(response.completion_token_ids),
            )
            if prompt and completion:
                yield Row(prompt, completion, weight, held_back)


# Where the task begins in a prompt (orchestrator_inference/prompt).
TASK = "Problem: "
# A call whose last argument is a name.
CALL = re.compile(r'(.*:")([A-Z][A-Za-z]+)("\}\}.*)', re.DOTALL)
WORD = re.compile(" [A-Z][a-z]{4,}")


def renamed(
    rows: Iterable[Row], count: int, tokenizer: PreTrainedTokenizerBase, random: Random
) -> Iterator[Row]:
    """Yields `count` rows that call with another word for a name of the question.

    Training and held-out tasks share no names, and those that training has are few: a policy learns
    them by heart, and is of two minds where a new one is one token in the question and several in
    the argument. Each row is learnt from the name on, so that the policy learns to copy. Fewer come
    where no row calls with a name, or no token is a word.
    """
    found = [named for row in rows if not row.held_back for named in _named(row, tokenizer)]
    words = members(_words(tokenizer), Split.TRAIN)
    for _ in range(count if found and words else 0):
        prompt, begins, name, ends = random.choice(found)
        word = random.choice(words)
        head, task, asked = prompt.rpartition(TASK)
        ids_of_all = tokenizer.encode(f"{begins}{word}{ends}", add_special_tokens=False)
        known = tokenizer.encode(begins, add_special_tokens=False)
        # Elsewhere a token holds the end of the one and the beginning of the other.
        if ids_of_all[: len(known)] == known:
            text = f"{head}{task}{asked.replace(name, word)}"
            ids = tokenizer.encode(text, add_special_tokens=False)
            yield Row((*ids, *known), tuple(ids_of_all[len(known) :]))


def _named(row: Row, tokenizer: PreTrainedTokenizerBase) -> Iterator[tuple[str, str, str, str]]:
    """The prompt, and the call before its name, the name, and what follows it."""
    prompt, call = tokenizer.decode(row.prompt), CALL.fullmatch(tokenizer.decode(row.completion))
    head, _, asked = prompt.rpartition(TASK)
    if call and call[2] in asked and call[2] not in head:
        yield prompt, call[1], call[2], call[3]


def _words(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    texts = tokenizer.batch_decode([[each] for each in range(len(tokenizer))])
    return sorted({text.strip() for text in texts if WORD.fullmatch(text)})
