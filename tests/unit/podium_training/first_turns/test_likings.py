from random import Random

from podium_training.first_turns.likings import draw_vectors, weighed
from podium_training.preferences.pairs import Pair
from unit.podium_training.first_turns.offered import MODELS, expert
from unit.podium_training.first_turns.played import EXPERT

WAYS = [f"{EXPERT}/{model}" for model in MODELS]


def drawn(count: int = 40) -> list[list[Pair]]:
    return [draw_vectors(WAYS, Random(seed))() for seed in range(count)]


def is_liking(pairs: list[Pair]) -> bool:
    return any(pair.tools for pair in pairs)


def vector(pair: Pair) -> tuple[float, float, float, str]:
    return pair.outcome, pair.compute, pair.latency, pair.instruction


def test_models_are_liked_beside_the_same_vector_without() -> None:
    for pairs in filter(is_liking, drawn()):
        plain, *liked = pairs
        assert not plain.tools
        assert sorted(name for pair in liked for name in pair.tools) == sorted(WAYS)
        assert len(set(map(vector, pairs))) == 1


def test_other_steps_differ_by_their_vectors() -> None:
    found = drawn()
    assert 15 < sum(map(is_liking, found)) < 35
    plain = next(pairs for pairs in found if not is_liking(pairs))
    assert len(set(map(vector, plain))) > len(plain) / 2


def test_the_tasks_of_a_step_like_by_the_same_weight() -> None:
    for seed in range(20):
        draw = draw_vectors(WAYS, Random(seed))
        weights = {weight for _ in range(5) for pair in draw() for weight in pair.tools.values()}
        assert len(weights) <= 1


def test_terms_and_estimates_say_who_is_liked() -> None:
    said = weighed(expert(), {"small": 0.9})
    large, small = said.terms.split("; ")
    assert (large, small[-12:]) == (expert().terms.split("; ")[0], ", weight 0.9")
    assert [each.weight for each in said.estimates] == [0.0, 0.9]


def test_a_weight_that_was_there_is_not_kept() -> None:
    before = weighed(expert(), {"small": 0.9})
    assert weighed(before, {}) == expert()
    assert weighed(before, {"large": 0.5}) == weighed(expert(), {"large": 0.5})
