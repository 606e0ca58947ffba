"""Servers say in words of their own that a prompt is too long, and other things in like words."""

import pytest

from podium_kit.models.context_length import says_too_long


@pytest.mark.parametrize(
    "words",
    [
        "context_length_exceeded",
        "This model's maximum context length is 4096 tokens. However, your prompt contains 5000",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "the request exceeds the available context size, try increasing it",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (1189825) exceeds the maximum number of tokens allowed (1048576).",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
    ],
)
def test_a_prompt_that_is_too_long_is_recognised(words: str) -> None:
    assert says_too_long(words)


@pytest.mark.parametrize("words", ["max_tokens must be at least 1", "no such model", ""])
def test_other_faults_are_not_taken_for_it(words: str) -> None:
    assert not says_too_long(words)
