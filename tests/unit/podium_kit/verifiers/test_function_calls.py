"""Calls written as JSON are judged by the rules of the Berkeley leaderboard."""

import json
from typing import Any

import pytest

from podium_kit.verifiers import InvalidVerifier, load_verifier


def judged(expected: list[Any], answer: Any) -> bool:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return load_verifier("function_calls", {"expected": expected}).judge(text).solved


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


PLAY = [{"play": {"artist": ["Taylor Swift"], "minutes": [20], "loud": [True, ""]}}]


def test_an_argument_must_be_one_of_its_allowed_values() -> None:
    assert judged(PLAY, [call("play", artist="Taylor Swift", minutes=20, loud=True)])
    assert not judged(PLAY, [call("play", artist="Taylor Swift", minutes=21)])
    assert not judged(PLAY, [call("play", artist="Taylor Swift", minutes=20, loud=1)])
    assert not judged(PLAY, [call("play", artist="Taylor Swift", minutes="20")])


def test_only_arguments_that_may_be_left_out_may_be_left_out() -> None:
    assert judged(PLAY, [call("play", artist="Taylor Swift", minutes=20)])
    assert not judged(PLAY, [call("play", artist="Taylor Swift")])
    assert not judged(PLAY, [call("play", artist="Taylor Swift", minutes=20, colour="red")])


def test_strings_differ_in_words_not_in_marks_and_case() -> None:
    assert judged(PLAY, [call("play", artist="taylor-swift", minutes=20)])
    assert not judged(PLAY, [call("play", artist="Taylor", minutes=20)])


def test_every_expected_call_is_wanted_once_in_any_order() -> None:
    expected = [{"f": {"x": [1, 2]}}, {"f": {"x": [1]}}]
    # As on the leaderboard, the first expected call takes the first that fits it.
    assert not judged(expected, [call("f", x=1), call("f", x=2)])
    assert judged(expected, [call("f", x=2), call("f", x=1)])
    assert not judged(expected, [call("f", x=2), call("f", x=2)])
    assert not judged(expected, [call("f", x=1)])
    assert not judged(expected, [call("f", x=1), call("f", x=2), call("f", x=1)])


def test_many_calls_that_are_alike_are_paired_at_once() -> None:
    # All orders of thirty would not be tried before the end of the world.
    expected = [*[{"f": {"x": [1, 2]}}] * 29, {"f": {"x": [3]}}]
    assert not judged(expected, [call("f", x=1)] * 30)
    assert judged(expected, [*[call("f", x=1)] * 29, call("f", x=3)])


def test_nested_values_are_compared_inside() -> None:
    expected = [{"book": {"trip": [{"to": ["Rome"], "days": [3, ""]}], "tags": [["a", "b"]]}}]
    assert judged(expected, [call("book", trip={"to": "rome"}, tags=["A", "B"])])
    assert not judged(expected, [call("book", trip={"days": 3}, tags=["a", "b"])])
    assert not judged(expected, [call("book", trip={"to": "Rome"}, tags=["b", "a"])])


def test_code_fences_are_read_and_prose_is_no_call() -> None:
    fenced = f"```json\n{json.dumps([call('f')])}\n```"
    assert judged([{"f": {}}], fenced)
    assert not judged([{"f": {}}], "I would call f.")


def test_where_no_call_is_right_prose_is_right_and_a_call_is_not() -> None:
    assert judged([], "None of these functions fits.")
    assert judged([], "[]")
    assert not judged([], [call("f")])


def test_an_expected_call_names_one_function() -> None:
    with pytest.raises(InvalidVerifier, match="expected"):
        judged([{"f": {}, "g": {}}], "[]")


FUNCTIONS = [
    {
        "name": "book",
        "types": {
            "city": "string",
            "nights": "integer",
            "price": "float",
            "late": "boolean",
            "tags": "array",
            "trip": "dict",
        },
        "items": {"tags": "string"},
        "required": ["city", "nights"],
    }
]
BOOK = [
    {
        "book": {
            "city": ["Rome", "Roma"],
            "nights": [3, ""],
            "price": [10.0, ""],
            "late": [True, ""],
            "tags": [["a", "b"], ""],
            "trip": [{"to": ["Rome"], "days": [3, ""]}, ""],
        }
    }
]


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        ({"city": "rome", "nights": 3}, True),
        ({"city": "rome", "nights": 3.0}, False),
        ({"city": "rome", "nights": "3"}, False),
        ({"city": "rome", "nights": True}, False),
        ({"city": "rome", "nights": None}, False),
        # Required by the declaration, although the allowed values say that it may be left out.
        ({"city": "rome"}, False),
        ({"nights": 3}, False),
        ({"city": "rome", "nights": 3, "price": 10}, True),
        ({"city": "rome", "nights": 3, "price": "10"}, False),
        ({"city": "rome", "nights": 3, "late": 1}, False),
        ({"city": "rome", "nights": 3, "late": True}, True),
        ({"city": "rome", "nights": 3, "tags": ["A", "b."]}, True),
        ({"city": "rome", "nights": 3, "tags": ["b", "a"]}, False),
        ({"city": "rome", "nights": 3, "tags": "a"}, False),
        ({"city": "rome", "nights": 3, "trip": {"to": "ROME"}}, True),
        ({"city": "rome", "nights": 3, "trip": {"days": 3}}, False),
        ({"city": "rome", "nights": 3, "trip": {"to": "Rome", "x": 1}}, False),
        ({"city": "rome", "nights": 3, "colour": "red"}, False),
    ],
)
def test_with_declarations_types_are_exact_and_what_is_required_is_there(
    arguments: dict[str, Any], right: bool
) -> None:
    verifier = load_verifier("function_calls", {"expected": BOOK, "functions": FUNCTIONS})
    assert verifier.judge(json.dumps([call("book", **arguments)])).solved is right


def test_calls_that_differ_in_a_type_alone_are_two() -> None:
    expected = [{"f": {"x": [2]}}, {"f": {"x": [2]}}]
    functions = [{"name": "f", "types": {"x": "integer"}, "required": ["x"]}]
    verifier = load_verifier("function_calls", {"expected": expected, "functions": functions})
    assert verifier.judge(json.dumps([call("f", x=2), call("f", x=2)])).solved
    assert not verifier.judge(json.dumps([call("f", x=2.0), call("f", x=2)])).solved
