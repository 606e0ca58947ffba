import json

import pytest

from podium_kit.http_headers import RETRY_AFTER_MAX_S, header_problem, retry_after_s
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
    ("headers", "seconds"),
    [
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "1e999"}, RETRY_AFTER_MAX_S),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Mon, 01 Jan 99999999999999 00:00:00 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_a_wait_is_read_or_ignored(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds
