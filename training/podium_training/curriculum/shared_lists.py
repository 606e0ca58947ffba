"""Whole episodes of a step read a few lists of tools, whose tokens are computed once.

The platform ranks tools for each task, so that hardly two episodes were offered the same. An
episode is learnt under the list of another one that has every tool it called: that list might as
well have been its own. What comes behind the list (the task, the weights, what was found) stays.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from random import Random

from podium.episodes.v1.trajectory_pb2 import Trajectory
from podium_training.curriculum.contrast import Tokenizer, first_response
from podium_training.curriculum.errors import NoCurriculum
from podium_training.curriculum.families import family, in_turn
from podium_training.tasks.task import FIND_TOOLS


def whole_episodes(
    episodes: Sequence[Trajectory], count: int, lists: int, tokenizer: Tokenizer, random: Random
) -> Iterator[list[Trajectory]]:
    """So many for each step, under so many lists; one family after the other, without end.

    Raises NoCurriculum.
    """
    hosts = in_turn(episodes, family, random)
    used: Counter[str] = Counter()
    while True:
        step: list[Trajectory] = []
        for number in range(lists):
            host = next(hosts)
            room = (count - len(step)) // (lists - number)
            guests = islice(_guests(host, episodes, used), room - 1)
            step += [host, *(under(each, host, tokenizer) for each in guests)]
        # Lists that fit few leave room, which episodes of their own lists take.
        yield [*step, *islice(hosts, count - len(step))]


def under(episode: Trajectory, host: Trajectory, tokenizer: Tokenizer) -> Trajectory:
    """The episode with the other's system message and grammar."""
    moved = Trajectory()
    moved.CopyFrom(episode)
    theirs = first_response(host)
    system = _system(theirs.prompt_token_ids, tokenizer)
    for turn in moved.turns:
        response = turn.model_call.response
        behind = response.prompt_token_ids[len(_system(response.prompt_token_ids, tokenizer)) :]
        response.prompt_token_ids[:] = [*system, *behind]
        response.constraint_json_schema = theirs.constraint_json_schema
        response.constraint_digest = theirs.constraint_digest
    return moved


def called(episode: Trajectory) -> set[str]:
    """The tools that it called."""
    return {
        call.tool_name
        for turn in episode.turns
        for call in turn.model_call.response.action.tool_calls.calls
    }


def _guests(
    host: Trajectory, episodes: Iterable[Trajectory], used: Counter[str]
) -> Iterator[Trajectory]:
    """Others that its list has the tools for, the least used first, one family after the other."""
    if FIND_TOOLS in called(host):
        # What it found was offered later.
        return
    offered = set(host.tool_names) - {FIND_TOOLS}
    families: dict[str, list[Trajectory]] = defaultdict(list)
    for each in sorted(episodes, key=lambda each: used[each.episode_id]):
        if each is not host and called(each) <= offered:
            families[family(each)].append(each)
    turns = chain.from_iterable(zip_longest(*families.values()))
    for each in filter(None, turns):
        used[each.episode_id] += 1
        yield each


def _system(prompt: Sequence[int], tokenizer: Tokenizer) -> Sequence[int]:
    """The tokens of the first message. Raises NoCurriculum."""
    if tokenizer.eos_token_id not in prompt:
        raise NoCurriculum("no message of a prompt ends with the end of a turn, as in ChatML")
    return prompt[: list(prompt).index(tokenizer.eos_token_id) + 1]
