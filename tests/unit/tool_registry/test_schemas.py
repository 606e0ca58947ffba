import json
from typing import Any

import pytest

from tool_registry.errors import InvalidSchema
from tool_registry.tools.schemas import check_parameters_schema


def fault(schema: Any) -> InvalidSchema:
    with pytest.raises(InvalidSchema) as caught:
        check_parameters_schema(schema if isinstance(schema, str) else json.dumps(schema))
    return caught.value


def with_property(**schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}}


def doubling(steps: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(steps)
    }
    definitions[f"d{steps}"] = {"type": "string"}
    return {**with_property(**{"$ref": "#/$defs/d0"}), "$defs": definitions}


def test_a_schema_may_use_local_definitions_more_than_once() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/p"}, "b": {"$ref": "#/$defs/p"}},
        "$defs": {"p": {"type": "string"}},
    }
    assert check_parameters_schema(json.dumps(schema)) == schema


def test_data_and_names_that_look_like_references_are_none() -> None:
    schema = with_property(enum=[{"$ref": "#/nowhere"}], default={"$ref": "#"})
    schema["properties"]["$ref"] = {"type": "string"}
    assert check_parameters_schema(json.dumps(schema)) == schema


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ("{", "$"),
        ("[]", "$"),
        ('{"type": "object", "maximum": NaN}', "$"),
        ({"type": "array"}, "$.type"),
        ({}, "$.type"),
        (with_property(type="strin"), "$.properties.x.type"),
        (with_property(pattern="("), "$.properties.x.pattern"),
        (with_property(pattern="^(?=a)"), "$.properties.x.pattern"),
        (with_property(patternProperties={r"(a)\1": {}}), "$.properties.x.patternProperties"),
        ({"type": "object", "$schema": "http://json-schema.org/draft-03/schema#"}, "$.$schema"),
        ({"type": "object", "$schema": 7}, "$.$schema"),
        (with_property(**{"$schema": "https://example.com/own"}), "$.properties.x.$schema"),
        # Valid in the draft that it names, and another thing in 2020-12.
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                **with_property(items=[{"type": "string"}]),
            },
            "$.properties.x.items",
        ),
        (with_property(**{"$ref": "https://example.com/s.json"}), "$.properties.x.$ref"),
        (with_property(**{"$ref": "#/$defs/none"}), "$.properties.x.$ref"),
        (with_property(**{"$ref": "#"}), "$.properties.x.$ref"),
        (with_property(**{"$dynamicRef": "#x"}), "$.properties.x.$dynamicRef"),
        (with_property(**{"$id": "https://example.com/"}), "$.properties.x.$id"),
        (doubling(20), "$.$defs.d8"),
    ],
)
def test_a_fault_is_named_by_its_path(schema: Any, path: str) -> None:
    assert fault(schema).metadata["path"] == path


def test_references_in_a_circle_are_rejected() -> None:
    schema = with_property(**{"$ref": "#/$defs/a"})
    schema["$defs"] = {
        "a": {"properties": {"b": {"$ref": "#/$defs/b"}}},
        "b": {"properties": {"a": {"$ref": "#/$defs/a"}}},
    }
    assert "recursive" in fault(schema).message


def test_a_schema_over_64_kb_is_rejected() -> None:
    assert "bytes" in fault(with_property(description="x" * 65_536)).message


@pytest.mark.parametrize("levels", [70, 5_000])
def test_a_schema_too_deep_to_walk_is_rejected(levels: int) -> None:
    text = '{"not":' * levels + "{}" + "}" * levels
    assert "nested deeper" in fault(text).message
