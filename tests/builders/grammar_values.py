"""Hypothesis strategies for the values of an action grammar's JSON Schema."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from builders.smallest_instance import FORMATTED

# Surrogates too: a grammar allows "\ud800", which is JSON and no text.
ANY_TEXT = st.text(st.characters(codec=None))


def grammar_values(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Every value the schema allows, objects with and without their optional members."""
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of(*(grammar_values(variant) for variant in schema["anyOf"]))
    return _typed(schema)


def _typed(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    low, high = schema.get("minimum"), schema.get("maximum")
    match schema["type"]:
        case "object":
            return _objects(schema)
        case "array":
            items = grammar_values(schema["items"])
            return st.lists(items, min_size=schema["minItems"], max_size=schema["maxItems"])
        case "string" if "format" in schema:
            return st.just(FORMATTED[schema["format"]])
        case "string":
            limits = {"min_size": schema.get("minLength", 0), "max_size": schema.get("maxLength")}
            return st.text(st.characters(codec=None), **limits)
        case "integer":
            return st.integers(low, high)
        case "number":
            return st.floats(low, high, allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case _:
            return st.none()


def _objects(schema: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    if "properties" not in schema:
        values = grammar_values(schema["additionalProperties"])
        return st.dictionaries(ANY_TEXT, values, max_size=schema["maxProperties"])
    members = {name: grammar_values(part) for name, part in schema["properties"].items()}
    required = {name: members[name] for name in schema["required"]}
    optional = {name: part for name, part in members.items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional)
