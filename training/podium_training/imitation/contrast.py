"""One task under several preference vectors: what differs between its demonstrations is the choice.

Of about thirty tokens that an episode trains, one says who does the task. Whole episodes teach the
others: policies that saw thousands of them chose alike under every vector. So here the first turn
alone is learnt, and of a call of the orchestrator's own the tool's name.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, islice, zip_longest
from typing import Any, Protocol

from podium.episodes.v1.trajectory_pb2 import Trajectory
from podium.orchestrator.v1.orchestrator_service_pb2 import NextActionResponse

OWN = ""
NAME_ENDS = '","arguments"'


class Tokenizer(Protocol):
    eos_token_id: int

    def decode(self, token_ids: Sequence[int]) -> str: ...


def choice(episode: Trajectory, expert: str) -> str:
    """Names the choice of the first turn: a model of the expert tool, or OWN."""
    action = first_response(episode).action
    for call in action.tool_calls.calls:
        if call.tool_name == expert:
            return call.arguments_json
    return OWN


def first_response(episode: Trajectory) -> NextActionResponse:
    return episode.turns[0].model_call.response


def differing(episodes: Iterable[Trajectory], expert: str, count: int) -> list[Trajectory]:
    by_choice: dict[str, list[Trajectory]] = defaultdict(list)
    for episode in episodes:
        by_choice[choice(episode, expert)].append(episode)
    turns = chain.from_iterable(zip_longest(*by_choice.values()))
    return list(islice(filter(None, turns), count))


def first_turn(episode: Trajectory, expert: str, tokenizer: Tokenizer) -> Trajectory:
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
    """Counts the tokens within the tool's name, without one that also holds what follows.

    The text is never tokenised anew: `",` and `"` are other tokens.
    """
    end = response.completion_text.index(NAME_ENDS)
    ids: Any = response.completion_token_ids
    kept = 0
    while len(tokenizer.decode(ids[: kept + 1])) <= end:
        kept += 1
    return kept
