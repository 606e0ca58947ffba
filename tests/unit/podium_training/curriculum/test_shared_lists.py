"""Whole episodes under the list of another that has the tools they call."""

from itertools import islice
from random import Random

import pytest

from podium.episodes.v1.trajectory_pb2 import Trajectory
from podium.orchestrator.v1.orchestrator_service_pb2 import NextActionResponse
from podium_training.curriculum.errors import NoCurriculum
from podium_training.curriculum.shared_lists import under, whole_episodes
from podium_training.tasks.task import FIND_TOOLS
from unit.podium_training.curriculum.played import TOKENIZER, own, played

WIDE = ("add", "dates", "words")


def texts(episode: Trajectory) -> list[str]:
    return [str(TOKENIZER.decode(each.prompt_token_ids)) for each in responses(episode)]


def responses(episode: Trajectory) -> list[NextActionResponse]:
    return [turn.model_call.response for turn in episode.turns]


def systems(step: list[Trajectory]) -> set[str]:
    return {text.split("</s>")[0] for each in step for text in texts(each)}


def steps(episodes: list[Trajectory], count: int, lists: int) -> list[list[Trajectory]]:
    return list(islice(whole_episodes(episodes, count, lists, TOKENIZER, Random(3)), 6))


def test_only_the_list_and_the_grammar_change() -> None:
    guest, host = own("g", "sql-1", ("add",)), own("h", "dates-1", WIDE)
    host.turns[0].model_call.response.constraint_digest = "of the host"
    moved = under(guest, host, TOKENIZER)
    assert texts(moved) == ["add,dates,words</s>sql-1</s>", "add,dates,words</s>sql-1?</s>"]
    assert {each.constraint_digest for each in responses(moved)} == {"of the host"}
    assert [each.completion_token_ids for each in responses(moved)] == [
        each.completion_token_ids for each in responses(guest)
    ]
    assert texts(guest)[0] == "add</s>sql-1</s>"


def test_a_step_has_so_many_episodes_under_so_many_lists() -> None:
    episodes = [own(f"e{n}", f"{('sql', 'dates')[n % 2]}-{n}", (*WIDE, str(n))) for n in range(12)]
    for step in steps(episodes, 6, 2):
        assert len(step) == 6
        assert len(systems(step)) == 2
        assert len({each.episode_id for each in step}) >= 5


def test_an_episode_keeps_its_list_where_no_other_has_its_tools() -> None:
    alone = played("a", "words-1", "words", ("words",))
    other = own("o", "sql-1", ("add",))
    for step in steps([alone, other], 2, 1):
        for each in step:
            [system] = systems([each])
            assert system == {"a": "words", "o": "add"}[each.episode_id]


def test_a_list_that_grew_is_nobody_else_s() -> None:
    finds = played("f", "words-1", FIND_TOOLS, ("add", FIND_TOOLS), query="words")
    others = [own(f"o{number}", f"sql-{number}", ("add",)) for number in range(3)]
    for step in steps([finds, *others], 4, 1):
        assert not [
            each
            for each in step
            if each.episode_id != "f" and FIND_TOOLS in texts(each)[0].split("</s>")[0]
        ]


def test_prompts_without_the_end_of_a_message_are_rejected() -> None:
    bare, host = own("b", "sql-1"), own("h", "sql-2")
    bare.turns[0].model_call.response.prompt_token_ids[:] = [5, 6]
    with pytest.raises(NoCurriculum, match="ends with the end of a turn"):
        under(bare, host, TOKENIZER)
