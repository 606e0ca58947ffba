"""Schemas that cost too much, and values that do not fit theirs."""

import json
import tracemalloc
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from podium_kit.json_schemas.bounded_checks import STEPS_MAX
from podium_kit.json_schemas.checks import check_grammar, checked_schema
from podium_kit.json_schemas.errors import UnusableSchema
from podium_kit.json_schemas.grammar import (
    CHARACTERS_MAX,
    SchemaLimits,
    grammar_characters,
    normalise,
)
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


KINDS = ["object", "array", "string", "number", "boolean", "null"]
Schema = dict[str, Any]


def rooted(part: Schema, **more: Any) -> Schema:
    return {"type": "object", "properties": {"a": part}, **more}


def nested(levels: int, **keywords: Any) -> Schema:
    part: Schema = {}
    for _ in range(levels):
        part = {**keywords, "items": part, "additionalProperties": part}
    return part


def objects(width: int, levels: int) -> Schema:
    """Different objects, so that none is like another."""
    part: Schema = {"type": "string"}
    for _ in range(levels):
        part = {"oneOf": [rooted(part, required=[str(at)]) for at in range(width)]}
    return part


def enclosing(levels: int) -> Schema:
    """Each level refers to the level above the last, which encloses thousands."""
    part: Schema = {"anyOf": [{}] * 7000}
    pointers = []
    for at in range(levels):
        part = {"properties": {"p": part}}
        pointers.append({"$ref": "#/properties/a" + "/properties/p" * at})
    return rooted(part, anyOf=pointers)


def names(count: int) -> Schema:
    return {f"p{at}": {} for at in range(count)}


BOMBS = {
    "types times alternatives": rooted(nested(3, anyOf=[{}] * 50, type=KINDS)),
    "wider": rooted(nested(3, anyOf=[{}] * 200, type=KINDS)),
    "one of one of": rooted(nested(4, oneOf=[{}] * 30, type=KINDS)),
    "different objects": rooted(objects(8, 4)),
    "enums by reference": rooted(
        {"anyOf": [{"$ref": "#/$defs/e"}] * 1000}, **{"$defs": {"e": {"enum": list(range(5000))}}}
    ),
    "constants by reference": rooted(
        {"anyOf": [{"$ref": "#/$defs/e"}] * 1000}, **{"$defs": {"e": {"const": "x" * 20_000}}}
    ),
    "allOf with many properties": rooted({"allOf": [{}] * 5000, "properties": names(2000)}),
    "required in each": rooted({"anyOf": [{}] * 3000, "required": list(names(3000))}),
    "keywords in each": rooted({"anyOf": [{}] * 3000, **{f"x-{at}": 0 for at in range(3000)}}),
    "properties in each place": rooted(
        {"prefixItems": [{"$ref": "#/$defs/e"}] * 900, "$defs": {}},
        **{"$defs": {"e": {"type": "object", "properties": names(500)}}},
    ),
    "by the names of properties": rooted(
        {
            "patternProperties": {"^a": {}},
            **nested(3, anyOf=[{}] * 60, type=KINDS),
        }
    ),
    "references to what encloses them": enclosing(25),
    "references in a row": rooted(
        {"$ref": "#/$defs/d0"},
        **{
            "$defs": {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}]} for at in range(120)}
            | {"d120": {}}
        },
    ),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_schema_that_grows_without_bounds_is_rejected(bomb: Schema) -> None:
    text = json.dumps(bomb)
    with pytest.raises(UnusableSchema):
        checked_schema(text)
        check_grammar(text)


def alternatives() -> st.SearchStrategy[Schema]:
    types = st.lists(st.sampled_from(KINDS), min_size=1, unique=True)
    leaf = st.fixed_dictionaries({"type": types})
    return st.recursive(
        leaf,
        lambda inner: st.builds(
            lambda part, times, keyword, types: {
                keyword: [part] * times,
                "type": types,
                "items": part,
                "properties": {"a": part},
            },
            inner,
            st.integers(1, 40),
            st.sampled_from(["anyOf", "oneOf"]),
            types,
        ),
        max_leaves=8,
    )


@given(alternatives())
def test_what_is_accepted_has_a_grammar_within_the_bound(part: Schema) -> None:
    text = json.dumps(rooted(part))
    try:
        checked_schema(text)
        check_grammar(text)
    except UnusableSchema:
        return
    written = json.dumps(normalise(json.loads(text), SchemaLimits(1000)))
    assert len(written) < 8 * CHARACTERS_MAX


def test_strings_of_many_lengths_are_one_alternative() -> None:
    lengths = [{"type": "string", "minLength": at, "maxLength": at + 9} for at in range(64)]
    reduced = normalise(rooted({"anyOf": lengths}), SchemaLimits(1000))
    assert reduced["properties"]["a"] == {"type": "string", "maxLength": 72}
    lists = [{"type": "array", "items": each, "maxItems": 3} for each in lengths]
    reduced = normalise(rooted({"prefixItems": lists}), SchemaLimits(1000))
    assert reduced["properties"]["a"]["items"]["items"] == {"type": "string", "maxLength": 72}


def test_a_schema_with_hundreds_of_arguments_is_well_within_the_bound() -> None:
    part = {"type": "string", "description": "words " * 10}
    schema = rooted({"type": "object", "properties": dict.fromkeys(names(500), part)})
    assert grammar_characters(json.dumps(schema)) * 4 < CHARACTERS_MAX
