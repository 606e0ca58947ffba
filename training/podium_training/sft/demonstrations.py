"""Rows to learn from: model calls of solved episodes."""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from podium.episodes.v1.trajectory_pb2 import Trajectory
from podium_training.grpo.config import StreamConfig
from podium_training.grpo.data.convert import episode_from_proto
from podium_training.grpo.data.envelopes import open_record
from podium_training.grpo.data.episodes import Limits, Rejected
from podium_training.grpo.data.imitated import is_exemplary
from podium_training.grpo.data.stream import LogReader

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
    """Every model call that has tokens and is worth imitating."""
    for episode in episodes:
        held_back = zlib.crc32(episode.task_id.encode()) % HELD_BACK == 0
        for turn in filter(is_exemplary, episode.turns):
            said = turn.model_call.response
            prompt, completion = tuple(said.prompt_token_ids), tuple(said.completion_token_ids)
            if prompt and completion:
                yield Row(prompt, completion, weight, held_back)
