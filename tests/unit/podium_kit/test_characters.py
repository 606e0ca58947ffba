"""Half characters, as JSON can carry them."""

import json

from podium_kit.text import whole_characters


def test_text_stays_as_it_is() -> None:
    assert whole_characters("naïve 🙂") == "naïve 🙂"


def test_halves_that_belong_together_are_joined() -> None:
    halves = [json.loads(part) for part in ('"a \\ud83d"', '"\\ude42 b"')]
    assert whole_characters("".join(halves)) == "a 🙂 b"


def test_a_half_alone_is_replaced() -> None:
    assert whole_characters("a \ud83d b") == "a \ufffd b"
