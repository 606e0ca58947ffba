"""Schemas are checked when a tool is registered; the complaint says where and what."""

import json

import pytest

from tool_registry.errors import InvalidSchema
from tool_registry.schemas import SCHEMA_BYTES_MAX, check_parameters_schema

LOOP = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}


def test_schema_with_local_references_is_taken() -> None:
    city = {"$ref": "#/$defs/city"}
    schema = {"type": "object", "properties": {"from": city, "to": city}}
    check_parameters_schema(json.dumps(schema | {"$defs": {"city": {"type": "string"}}}))


@pytest.mark.parametrize(
    ("schema", "path", "complaint"),
    [
        ("{", "/", "not JSON"),
        ("[]", "/", "is not of type"),
        ('{"type": "string"}', "/type", '"type": "object"'),
        ('{"type": "object", "properties": {"x": {"type": "int"}}}', "/properties/x/type", "int"),
        (
            '{"type": "object", "properties": {"x": {"$ref": "#/$defs/y"}}}',
            "/properties/x/$ref",
            "leads nowhere",
        ),
        (
            '{"type": "object", "properties": {"x": {"$ref": "http://example.com/s"}}}',
            "/properties/x/$ref",
            "outside of this schema",
        ),
        (
            json.dumps({"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}} | LOOP),
            "/properties/x/$ref/$ref",
            "",
        ),
        (
            json.dumps({"type": "object", "description": "x" * SCHEMA_BYTES_MAX}),
            "/",
            "larger than 64 KiB",
        ),
    ],
)
def test_unusable_schema_is_refused_at_its_path(schema: str, path: str, complaint: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        check_parameters_schema(schema)
    assert complaint in refused.value.message
    if complaint:
        assert refused.value.metadata["path"] == path
