"""Tools compared with a query, by words and by vectors."""

import numpy as np
import pytest

from podium_kit.models.openai_embeddings import Vector
from tool_registry.ranking.index import ToolIndex

TEXTS = [("adds numbers",), ("draws pictures", "paint a house"), ("tells the time",)]


def towards(*places: int) -> Vector:
    """A vector of length 1 that points to these places."""
    vector = np.zeros(4, dtype=np.float32)
    vector[list(places)] = 1 / np.sqrt(len(places))
    return vector


VECTORS = [[towards(0)], [towards(1), towards(2)], [towards(3)]]


def numbers(index: ToolIndex, query: str, vector: Vector | None = None) -> list[int]:
    return [number for number, _ in index.fitting(query, vector)]


def test_words_find_and_common_words_do_not() -> None:
    index = ToolIndex(TEXTS, None)
    assert numbers(index, "which pictures?") == [1]
    assert numbers(index, "paint") == [1]
    assert numbers(index, "the of") == numbers(index, "xyzzy") == numbers(index, "?!") == []


def test_the_closest_of_a_tool_s_texts_counts() -> None:
    index = ToolIndex(TEXTS, VECTORS)
    assert numbers(index, "xyzzy", towards(2)) == [1]
    assert index.ranked("xyzzy", towards(3))[0] == 2


def test_a_word_breaks_a_tie_of_meaning() -> None:
    index = ToolIndex(TEXTS, VECTORS)
    between = towards(0, 3)
    assert index.ranked("xyzzy", between)[:2] == [0, 2]
    assert index.ranked("time", between)[:2] == [2, 0]


def test_what_was_learnt_of_a_tool_counts_as_one_of_its_texts() -> None:
    index = ToolIndex(TEXTS, VECTORS)
    assert index.ranked("xyzzy", towards(3), np.array([0.0, 0.5, 0.0]))[0] == 2
    assert index.ranked("xyzzy", towards(0, 3), np.array([0.0, 0.9, 0.0]))[0] == 1


@pytest.mark.parametrize("texts", [[], [("?",)], [("the",), ("of",)]])
def test_without_words_nothing_is_found(texts: list[tuple[str]]) -> None:
    index = ToolIndex(texts, None)
    assert numbers(index, "the sum") == []
    assert index.ranked("the sum", None) == list(range(len(texts)))
