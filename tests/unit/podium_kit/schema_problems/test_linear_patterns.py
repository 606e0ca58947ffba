"""A pattern that a backtracking engine would try for hours is answered at once."""

from typing import Any

import jsonschema
import pytest
from jsonschema import Draft202012Validator

from podium_kit.json_schemas.problems import problems

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
