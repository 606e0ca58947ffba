"""A schema of a kilobyte that asks for a grammar of gigabytes is rejected, after bounded work."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_kit.json_schemas.checks import check_grammar, checked_schema
from podium_kit.json_schemas.errors import UnusableSchema
from podium_kit.json_schemas.grammar import (
    CHARACTERS_MAX,
    SchemaLimits,
    grammar_characters,
    normalise,
)

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
