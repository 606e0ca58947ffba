import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator_inference.action.schema import ActionOptions, build_constraint
from orchestrator_inference.models import PromptTool
from tool_registry.errors import InvalidSchema
from tool_registry.tools.schemas import check_parameters_schema

TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
SIZES = st.integers(0, 10**12)


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    named = st.dictionaries(st.sampled_from(["a", "b", "default", "$ref"]), inner, max_size=3)
    listed = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(TYPES)
            | st.lists(st.sampled_from(TYPES), min_size=1, unique=True),
            "properties": named,
            "required": st.lists(st.sampled_from(["a", "b", "c"]), unique=True),
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": listed,
            "anyOf": listed,
            "oneOf": listed,
            "allOf": listed,
            "not": inner,
            "enum": st.lists(SCALARS, max_size=3),
            "const": SCALARS,
            "minItems": SIZES,
            "maxItems": SIZES,
            "minLength": SIZES,
            "maxLength": SIZES,
            "minimum": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
            "exclusiveMaximum": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
            "format": st.sampled_from(["date", "email", "teapot"]),
            "pattern": st.sampled_from(["^a+$", "[0-9]"]),
            "$ref": st.sampled_from(["#/$defs/A", "#/$defs/B", "#/$defs/A/allOf/0"]),
        },
    )


SCHEMAS = st.recursive(st.booleans() | keywords(st.just({})), keywords, max_leaves=6)
ROOTS = st.builds(
    lambda root, a, b: {**root, "type": "object", "$defs": {"A": a, "B": b}},
    keywords(SCHEMAS),
    SCHEMAS,
    SCHEMAS,
)


@given(ROOTS)
@settings(max_examples=100, deadline=None)
def test_a_schema_that_the_registry_takes_is_offered(schema: dict[str, Any]) -> None:
    text = json.dumps(schema)
    try:
        check_parameters_schema(text)
    except InvalidSchema:
        return
    offered(text)


@pytest.mark.parametrize(
    "value",
    [
        {"$ref": "#/$defs/Any"},
        {"$ref": "#/$defs/Both/allOf/0"},
        {"type": "array", "minItems": 10**9},
        {"type": "string", "minLength": 10**9},
    ],
)
def test_what_no_grammar_can_say_is_left_to_the_adapter(value: dict[str, Any]) -> None:
    definitions = {"Any": True, "Both": {"allOf": [{"type": "string"}]}}
    schema = {"type": "object", "properties": {"value": value}, "$defs": definitions}
    text = json.dumps(schema)
    check_parameters_schema(text)
    assert len(offered(text)) < 10_000


def offered(text: str) -> str:
    tool = PromptTool(
        name="tool",
        description="A tool.",
        parameters_json_schema=text,
    )
    return build_constraint([tool], ActionOptions(max_tokens=512)).schema_json
