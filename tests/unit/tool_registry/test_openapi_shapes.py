from typing import Any

import pytest
import yaml

from openapi_builders import PETSTORE, body, changed, only, read, schema_of, with_secret
from podium.registry.v1 import tool_pb2


def test_an_id_in_the_path_and_one_in_the_body_are_two_arguments() -> None:
    schema = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
    spec = only(body(schema))
    assert schema_of(spec)["required"] == ["id", "body_id"]
    assert dict(spec.connection.http.wire_names) == {"body_id": "id"}


def test_a_name_that_no_model_may_write_is_sent_under_its_own() -> None:
    query = {"name": "filter[colour]", "in": "query", "schema": {"type": "string"}}
    spec = only({"parameters": [query]})
    assert list(schema_of(spec)["properties"]) == ["filter_colour", "id"]
    assert dict(spec.connection.http.wire_names) == {"filter_colour": "filter[colour]"}


def test_a_path_parameter_that_nobody_declared_is_one() -> None:
    assert schema_of(only({}))["required"] == ["id"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "integer"}},
        {"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "string"}]},
        {"allOf": [{"anyOf": [{"type": "object"}]}]},
        {"type": "object", "additionalProperties": {"type": "string"}},
    ],
)
def test_a_body_that_has_no_fields_is_one_argument(schema: Any) -> None:
    spec = only(body(schema))
    assert spec.connection.http.body_argument == "body"
    assert schema_of(spec)["properties"]["body"] == schema
    assert "body" in schema_of(spec)["required"]


def test_a_schema_that_contains_itself_ends_after_some_levels_and_says_so() -> None:
    leaf = {"type": "object", "properties": {"up": {"$ref": "#/components/schemas/Tree"}}}
    tree = {"type": "object", "properties": {"default": {"$ref": "#/components/schemas/Leaf"}}}
    spec = only(body({"$ref": "#/components/schemas/Tree"}), {"Tree": tree, "Leaf": leaf})
    schema = schema_of(spec)
    assert schema["properties"]["default"] == {"$ref": "#/$defs/Leaf"}
    definitions = schema["$defs"]
    assert definitions["Leaf"] == {
        "type": "object",
        "properties": {"up": {"$ref": "#/$defs/Tree"}},
    }
    assert definitions["Tree@3"] == {"type": "object", "properties": {"default": {}}}
    assert spec.notices == [
        "$.$defs.Leaf refers to itself: what lies deeper than 3 of it is left to the tool's server"
    ]


def test_a_schema_too_large_for_a_tool_is_cut_where_it_refers_to_others() -> None:
    wide = {
        f"S{level}": {
            "type": "object",
            "properties": {
                f"p{at}": {"$ref": f"#/components/schemas/S{level + 1}"} for at in range(10)
            },
        }
        for level in range(6)
    } | {"S6": {"type": "object"}}
    schema = schema_of(only(body({"$ref": "#/components/schemas/S0"}), wide))
    assert set(schema["$defs"]) < set(wide)
    assert {"S1", "S2"} <= set(schema["$defs"])


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"type": "null"}, {"type": "null"}),
        ({"type": "any", "description": "What you like."}, {"description": "What you like."}),
        ({"type": "string", "required": True}, {"type": "string"}),
        ({"type": "string", "pattern": "^(?=a)b$"}, {"type": "string"}),
        ({"type": "string", "pattern": "^a+$"}, {"type": "string", "pattern": "^a+$"}),
        ({"type": "integer", "minimum": "1", "maximum": 9}, {"type": "integer", "maximum": 9}),
        ({"type": "string", "enum": None, "x-order": 1, "$id": "a"}, {"type": "string"}),
        ({"type": "array", "items": [{"type": "string"}]}, None),
    ],
)
def test_what_is_no_json_schema_widens_it(written: Any, expected: Any) -> None:
    spec = only(body({"type": "object", "properties": {"value": written}}))
    found = schema_of(spec)["properties"]["value"]
    assert found == (expected or {"type": "array", "prefixItems": [{"type": "string"}]})


@pytest.mark.parametrize(
    ("media_type", "encoding"),
    [
        ("application/x-www-form-urlencoded", tool_pb2.BODY_ENCODING_FORM),
        ("multipart/form-data", tool_pb2.BODY_ENCODING_MULTIPART),
    ],
)
def test_forms_have_their_fields_as_arguments(media_type: str, encoding: int) -> None:
    properties = {
        "photo": {"type": "string", "format": "binary"},
        "meta": {"type": "object"},
        "title": {"type": "string"},
    }
    schema = {"type": "object", "properties": properties, "required": ["title"]}
    spec = only(body(schema, media_type, encoding={"meta": {"style": "deepObject"}}))
    http = spec.connection.http
    assert http.body_encoding == encoding
    assert dict(http.argument_styles) == {
        "photo": tool_pb2.ARGUMENT_STYLE_FILE,
        "meta": tool_pb2.ARGUMENT_STYLE_DEEP_OBJECT,
    }
    assert schema_of(spec)["required"] == ["id", "title"]


def test_text_is_a_body_as_it_is() -> None:
    http = only(body({"type": "string"}, "text/csv; charset=utf-8")).connection.http
    assert (http.body_encoding, http.body_argument) == (tool_pb2.BODY_ENCODING_TEXT, "body")
    assert dict(http.headers) == {"Content-Type": "text/csv"}


@pytest.mark.parametrize(
    ("written", "style"),
    [
        ({"explode": False}, tool_pb2.ARGUMENT_STYLE_COMMA_SEPARATED),
        ({"style": "pipeDelimited", "explode": False}, tool_pb2.ARGUMENT_STYLE_PIPE_SEPARATED),
        ({"style": "spaceDelimited", "explode": False}, tool_pb2.ARGUMENT_STYLE_SPACE_SEPARATED),
        ({"style": "deepObject", "explode": True}, tool_pb2.ARGUMENT_STYLE_DEEP_OBJECT),
    ],
)
def test_a_query_is_written_as_its_style_says(written: dict[str, Any], style: int) -> None:
    query = {"name": "q", "in": "query", "schema": {"type": "array"}, **written}
    assert dict(only({"parameters": [query]}).connection.http.argument_styles) == {"q": style}


def test_operations_of_one_id_get_names_of_their_own() -> None:
    document = yaml.safe_load(PETSTORE)
    document["paths"]["/pets"] = {"get": {"operationId": "getPetById", "security": []}}
    names = [spec.name for spec in read(yaml.safe_dump(document)).specs]
    assert names == ["get_pet_by_id", "get_pet_by_id_2"]


def test_a_relative_server_is_where_the_document_came_from() -> None:
    relative = changed(servers=[{"url": "../v2"}])
    reply = with_secret(document=relative, document_url="https://pets.example/docs/api.yaml")
    url = reply.specs[0].connection.http.url_template
    assert url == "https://pets.example/v2/pets/{petId}"


def test_the_nearest_server_counts() -> None:
    document = yaml.safe_load(PETSTORE)
    document["paths"]["/pets/{petId}"]["servers"] = [{"url": "https://path.example"}]
    document["paths"]["/trees"]["post"]["servers"] = [{"url": "https://trees.example/"}]
    urls = [
        spec.connection.http.url_template
        for spec in with_secret(document=yaml.safe_dump(document)).specs
    ]
    assert urls == [
        "https://path.example/pets/{petId}",
        "https://path.example/pets/{petId}",
        "https://trees.example/trees",
    ]


def test_an_operation_with_a_large_body_is_kept_and_cut_by_notice() -> None:
    wide = {
        f"p{at}": {"type": "string", "description": "x" * 3_000, "enum": ["a", "b"]}
        for at in range(60)
    }
    spec = only(body({"allOf": [{"type": "object", "properties": wide, "required": ["p1"]}]}), {})
    schema = schema_of(spec)
    assert schema["properties"].keys() >= wide.keys()
    assert schema["properties"]["p1"]["enum"] == ["a", "b"]
    assert "too large" in spec.notices[-1]
