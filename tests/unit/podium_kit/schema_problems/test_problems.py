import tracemalloc
from typing import Any

import jsonschema
import pytest
from jsonschema import Draft202012Validator

from podium_kit.json_schemas.bounded_checks import STEPS_MAX
from podium_kit.json_schemas.problems import PROBLEMS_FOUND, problems

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


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize(
    "value",
    ["x" * 90_000, ["x" * 90_000], {"x" * 90_000: 1}, [[["x" * 9] * 9] * 9] * 99],
    ids=["text", "list", "name", "nested"],
)
def test_a_large_value_is_not_written_for_each_branch(keyword: str, value: Any) -> None:
    branches = [
        {"type": "null"},
        {"additionalProperties": False, "type": "object", "minItems": 1e9},
    ]
    validator = Draft202012Validator({keyword: branches * 500})
    tracemalloc.start()
    told = problems(validator, value)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(told) < 2500
    # Ninety megabytes, were it written a thousand times.
    assert peak_bytes < 20_000_000


def test_the_search_for_problems_ends_after_enough() -> None:
    told = problems(Draft202012Validator({"items": {"type": "null"}}), ["x"] * 5000)
    assert told.endswith(f"; and {PROBLEMS_FOUND - 3} more")


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, 1.0], False),
        ([1, True, 0, False, "1", None, "null"], True),
        ([{"a": 1, "b": [2.0]}, {"b": [2], "a": 1}], False),
        ([{"a": 1}, {"a": True}, [1], [True]], True),
        ([[], {}, "", "[]"], True),
        # A list and a text of the same words; quadratic, it would take a minute.
        ([number if number % 2 else f"{number}" for number in range(20_000)], True),
    ],
    ids=lambda value: str(value)[:20],
)
def test_unique_items_are_those_that_json_tells_apart(items: list[Any], unique: bool) -> None:
    found = problems(Draft202012Validator({"uniqueItems": True}), items)
    assert ("non-unique" not in found) is unique


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"allOf": [{"type": "integer"}] * 500}}, [1] * 1000),
        ({"allOf": [{"items": {}}] * 500}, [1] * 1000),
        ({"unevaluatedItems": False}, [1] * 1000),
        (
            {"patternProperties": {f"^{n}a": {} for n in range(500)}},
            {str(n): 1 for n in range(1000)},
        ),
        ({"anyOf": [{"items": {"not": {}}}, {"items": {"type": "null"}}] * 500}, [1] * 1000),
        ({"allOf": [{"pattern": "a$"}] * 500}, "a" * 1_000_000),
    ],
)
def test_a_check_takes_a_bounded_number_of_steps(schema: dict[str, Any], value: Any) -> None:
    told = problems(Draft202012Validator(schema), value)
    assert told == f"to check it takes more than {STEPS_MAX} steps; send fewer or shorter values"


# 2^200 ways to split the text, none of which fits.
PATTERN = "^(a+)+$"
TEXT = "a" * 200 + "!"
NAMED = {"patternProperties": {PATTERN: True}}
OLD = "http://json-schema.org/draft-07/schema#"
OLDER = "https://json-schema.org/draft/2019-09/schema"


@pytest.mark.parametrize(
    ("schema", "instance"),
    [
        ({"pattern": PATTERN}, TEXT),
        ({"propertyNames": {"pattern": PATTERN}}, {TEXT: 1}),
        ({**NAMED, "additionalProperties": False}, {TEXT: 1}),
        ({**NAMED, "unevaluatedProperties": False}, {TEXT: 1}),
        ({"items": {"$schema": OLD, "pattern": PATTERN}}, [TEXT]),
        ({"items": {"$schema": OLDER, **NAMED, "unevaluatedProperties": False}}, [{TEXT: 1}]),
    ],
)
def test_no_keyword_goes_back_over_a_text(schema: dict[str, Any], instance: Any) -> None:
    assert problems(Draft202012Validator(schema), instance)
    # As the MCP client checks a server's results.
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(instance, schema)


def test_names_that_fit_a_pattern_are_evaluated() -> None:
    schema = {"patternProperties": {"^x-": {"type": "integer"}}, "unevaluatedProperties": False}
    assert problems(Draft202012Validator(schema), {"x-a": 1}) == ""
    assert "'one' is not of type 'integer'" in problems(
        Draft202012Validator(schema), {"x-a": "one"}
    )


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "(a{100}){100}", "\ud800"])
def test_a_pattern_of_a_tool_registered_before_is_a_problem_not_a_fault(pattern: str) -> None:
    found = problems(Draft202012Validator({"pattern": pattern}), "a")
    assert "patterns are those of RE2, without lookaround and backreferences" in found


def test_half_a_character_is_one_that_no_other_pattern_fits() -> None:
    assert problems(Draft202012Validator({"pattern": "^.$"}), "\ud800") == ""
    assert "does not match" in problems(Draft202012Validator({"pattern": "a"}), "\ud800")
