import json

import pytest

from podium_kit.http_headers import header_problem
from podium_kit.models.context_length import says_too_long
from podium_kit.text import whole_characters


@pytest.mark.parametrize(
    "name", ["transfer-encoding", "TRANSFER_ENCODING", "Content-Length", "hOST", "proxy-anything"]
)
def test_a_header_of_the_connection_is_left_to_the_platform(name: str) -> None:
    assert "belongs to the connection" in header_problem(name)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\n", "é", "a/b", "(x)", "x\0"])
def test_what_is_no_token_is_no_name(name: str) -> None:
    assert "is no name of a header" in header_problem(name)


@pytest.mark.parametrize("value", ["", 'a, b; c="d"', "tab\tbed", "naïve", "日本"])
def test_other_headers_with_values_of_one_line_may_be_sent(value: str) -> None:
    assert header_problem("X-Api.Version_2", value) == ""


def test_text_stays_as_it_is() -> None:
    assert whole_characters("naïve 🙂") == "naïve 🙂"


def test_halves_that_belong_together_are_joined() -> None:
    halves = [json.loads(part) for part in ('"a \\ud83d"', '"\\ude42 b"')]
    assert whole_characters("".join(halves)) == "a 🙂 b"


def test_a_half_alone_is_replaced() -> None:
    assert whole_characters("a \ud83d b") == "a \ufffd b"


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
