"""What a model is told about arguments and results that do not fit."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from podium_kit.schema_problems import problems

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {"maximum": 10}}},
    "required": ["city"],
}


@pytest.mark.parametrize(
    ("instance", "words"),
    [
        ({"city": "Oslo", "days": [1]}, ""),
        ({}, "at /: 'city' is a required property"),
        ({"city": 5}, "at /city: 5 is not of type 'string'"),
        (
            {"city": "Oslo", "days": [1, 12]},
            'at /days/1: 12 is greater than the maximum of 10 (expected {"maximum": 10})',
        ),
    ],
)
def test_a_problem_names_its_place_and_what_was_expected(instance: Any, words: str) -> None:
    assert problems(Draft202012Validator(SCHEMA), instance) == words


def test_many_long_problems_are_cut_to_what_a_model_should_read() -> None:
    told = problems(Draft202012Validator(SCHEMA), {"city": "Oslo", "days": ["x" * 999] * 2})
    assert told == ""
    told = problems(Draft202012Validator({"items": {"type": "null"}}), ["x" * 999] * 5)
    assert told.endswith("; and 2 more")
    assert len(told) < 1000
