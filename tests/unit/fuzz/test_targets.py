from random import Random

import pytest

from fuzz.mutation import mutated
from fuzz.targets import CORPUS, TARGETS, seeds

MUTATIONS = 100


def test_every_target_has_a_corpus() -> None:
    assert {path.name for path in CORPUS.iterdir()} == TARGETS.keys()


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_corpus_and_documents_like_it_parse_or_are_rejected(name: str) -> None:
    target, random = TARGETS[name], Random(name)
    for data in seeds(name):
        target.try_(data)
        for _ in range(MUTATIONS):
            target.try_(mutated(data, random))


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_first_kept_input_of_a_target_is_a_good_one(name: str) -> None:
    TARGETS[name].parse(seeds(name)[0])
