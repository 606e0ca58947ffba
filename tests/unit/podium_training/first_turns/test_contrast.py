from collections.abc import Sequence

from podium_training.first_turns.contrast import OWN, choice, differing, first_turn
from unit.podium_training.first_turns.played import EXPERT, TOKENIZER, asked, own


def test_the_choice_is_the_model_that_is_asked_or_none() -> None:
    assert choice(asked("e", "t", "small"), EXPERT) != choice(asked("e", "t", "large"), EXPERT)
    assert choice(own("e", "t"), EXPERT) == OWN


def test_each_choice_comes_in_turn_and_no_more_than_wanted() -> None:
    episodes = [*(own(f"o{n}", "t") for n in range(5)), asked("s", "t", "small")]
    found = differing(episodes, EXPERT, 3)
    assert [each.episode_id for each in found] == ["o0", "s", "o1"]


def test_of_an_own_call_the_name_is_learnt_and_nothing_else() -> None:
    cut = first_turn(own("e", "t"), EXPERT, TOKENIZER)
    [turn] = cut.turns
    kept = turn.model_call.response
    assert TOKENIZER.decode(kept.completion_token_ids) == '{"tool":"add'
    assert len(kept.completion_logprobs) == len(kept.completion_token_ids)


def test_a_token_that_holds_the_end_of_the_name_and_more_is_not_learnt() -> None:
    class Merging:
        eos_token_id = 9

        def decode(self, token_ids: Sequence[int]) -> str:
            return "".join(tokens[each] for each in token_ids)

    tokens = ['{"tool":"', "ad", 'd",', '"arguments":{"numbers":"1 2"}}']
    episode = own("e", "t")
    response = episode.turns[0].model_call.response
    del response.completion_token_ids[:], response.completion_logprobs[:]
    response.completion_token_ids.extend(range(len(tokens)))
    response.completion_logprobs.extend([-1.0] * len(tokens))
    cut = first_turn(episode, EXPERT, Merging())
    assert list(cut.turns[0].model_call.response.completion_token_ids) == [0, 1]


def test_a_handed_task_is_learnt_with_the_model_and_the_end() -> None:
    episode = asked("e", "t", "small")
    cut = first_turn(episode, EXPERT, TOKENIZER)
    assert cut.turns[0] == episode.turns[0]
    assert len(episode.turns) == 2, "the episode itself stays whole"
