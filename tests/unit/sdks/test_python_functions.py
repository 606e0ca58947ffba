"""Functions of a program that an episode may call."""

from typing import Any

import pytest

from podium_client.functions import Function


def by_place(article: str, /) -> str:
    return article


def several(*articles: str) -> str:
    return ", ".join(articles)


def others(**articles: str) -> str:
    return ", ".join(articles)


@pytest.mark.parametrize("function", [by_place, several, others])
def test_arguments_without_a_name_are_rejected_before_an_episode_begins(function: Any) -> None:
    with pytest.raises(TypeError, match="can only name arguments"):
        Function(function)
