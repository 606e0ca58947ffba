"""One task under several preference vectors: what differs between its demonstrations is the choice.

Of about thirty tokens that an episode trains, one says who does the task. Whole episodes teach the
others: policies that saw thousands of them chose alike under every vector. So here the first turn
alone is learnt, and of a call of the orchestrator's own the tool's name.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Protocol

from podium.episodes.v1.trajectory_pb2 import Trajectory
from podium.orchestrator.v1.orchestrator_service_pb2 import NextActionResponse

OWN = ""
NAME_ENDS = '","arguments"'


class Tokenizer(Protocol):
    """What is used of transformers' tokenizers."""

    eos_token_id: int

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens."""
        ...


def choice(episode: Trajectory, expert: str) -> str:
    """Whom the first turn hands the task to: a model of the expert tool, or OWN."""
    action = first_response(episode).action
    for call in action.tool_calls.calls:
        if call.tool_name == expert:
            return call.arguments_json
    return OWN


def first_response(episode: Trajectory) -> NextActionResponse:
    """What the model said first."""
    return episode.turns[0].model_call.response


def contrasted(
    episodes: Iterable[Trajectory], expert: str, count: int
) -> Iterator[list[Trajectory]]:
    """By task, at most so many of its episodes: each choice in turn, as long as any are left.

    A task that is done alike under all of its vectors is left out.
    """
    tasks: dict[str, dict[str, list[Trajectory]]] = defaultdict(lambda: defaultdict(list))
    for episode in episodes:
        tasks[episode.task_id][choice(episode, expert)].append(episode)
    for by_choice in tasks.values():
        if len(by_choice) > 1:
            turns = zip_longest(*by_choice.values())
            yield [each for turn in turns for each in turn if each is not None][:count]


def first_turn(episode: Trajectory, expert: str, tokenizer: Tokenizer) -> Trajectory:
    """The episode as far as its choice."""
    cut = Trajectory()
    cut.CopyFrom(episode)
    del cut.turns[1:]
    response = first_response(cut)
    if choice(episode, expert) == OWN and NAME_ENDS in response.completion_text:
        kept = _tokens_of_name(response, tokenizer)
        del response.completion_token_ids[kept:]
        del response.completion_logprobs[kept:]
    return cut


def _tokens_of_name(response: NextActionResponse, tokenizer: Tokenizer) -> int:
    """How many tokens lie within the tool's name; one that also holds what follows is not learnt.

    The text is never tokenised anew: `",` and `"` are other tokens.
    """
    end = response.completion_text.index(NAME_ENDS)
    ids: Any = response.completion_token_ids
    kept = 0
    while len(tokenizer.decode(ids[: kept + 1])) <= end:
        kept += 1
    return kept
