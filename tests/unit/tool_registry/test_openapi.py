import json
import re
from typing import Any

import pytest
import yaml

from builders.openapi import PETSTORE, body, changed, only, read, schema_of, with_secret
from podium.registry.v1 import tool_pb2
from tool_registry.tools.openapi import document
from tool_registry.tools.openapi.document import InvalidOpenApi, loaded_yaml


def test_arguments_go_where_the_operation_wants_them() -> None:
    reply = with_secret()
    get, put, _ = reply.specs
    assert (get.name, get.side_effect) == ("get_pet_by_id", tool_pb2.SIDE_EFFECT_PURE)
    assert get.description == "Finds a pet." and list(get.tags) == ["pet-store"]
    http = get.connection.http
    assert (http.method, http.url_template) == ("GET", "https://eu.pets.example/v1/pets/{petId}")
    assert dict(http.parameter_locations) == {
        "petId": tool_pb2.PARAMETER_LOCATION_PATH,
        "fields": tool_pb2.PARAMETER_LOCATION_QUERY,
        "X-Trace": tool_pb2.PARAMETER_LOCATION_HEADER,
        "session": tool_pb2.PARAMETER_LOCATION_COOKIE,
    }
    assert not http.HasField("secret")
    schema = json.loads(get.parameters_json_schema)
    assert schema["required"] == ["petId"]
    assert schema["properties"]["petId"] == {"type": "integer", "exclusiveMinimum": 0}
    assert put.side_effect == tool_pb2.SIDE_EFFECT_IDEMPOTENT
    assert reply.title == "Pets 1.2"


def test_a_body_becomes_arguments_with_its_definitions() -> None:
    put = with_secret().specs[1]
    schema = json.loads(put.parameters_json_schema)
    assert set(schema["properties"]) == {"petId", "name", "example", "owner"}
    assert schema["required"] == ["petId", "name"]
    assert schema["properties"]["name"] == {"type": ["string", "null"]}
    assert schema["properties"]["owner"] == {"$ref": "#/$defs/Owner"}
    assert list(schema["$defs"]) == ["Owner"]
    assert put.connection.http.parameter_locations["name"] == tool_pb2.PARAMETER_LOCATION_BODY


SECRET = tool_pb2.SecretRef(name="pets")
OAUTH2 = tool_pb2.OAuth2ClientCredentials(
    token_url="https://eu.pets.example/token",
    client_id="zoo",
    client_secret=SECRET,
    scopes=["pets:write"],
)


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        ({"key": []}, {"secret_header": "X-Key", "secret": SECRET}),
        ({"token": []}, {"auth": tool_pb2.HttpAuth(bearer=SECRET)}),
        ({"lent": []}, {"auth": tool_pb2.HttpAuth(bearer=SECRET)}),
        ({"query": []}, {"auth": {"query": {"parameter": "key", "secret": SECRET}}}),
        ({"basic": []}, {"auth": {"basic": {"username": "keeper", "password": SECRET}}}),
        ({"granted": ["pets:write"]}, {"auth": {"oauth2_client_credentials": OAUTH2}}),
        (
            {"cookie": []},
            {"secret_headers": [{"name": "Cookie", "prefix": "sid=", "secret": SECRET}]},
        ),
    ],
)
def test_a_secret_is_named_and_put_where_the_scheme_says(
    needed: dict[str, Any], expected: dict[str, Any]
) -> None:
    document = changed(security=[{"signed": []}, needed])
    reply = with_secret(document=document, username="keeper", client_id="zoo")
    http = reply.specs[1].connection.http
    http.ClearField("parameter_locations")
    wanted = tool_pb2.HttpConnection(method="PUT", url_template=http.url_template, **expected)
    assert http == wanted


@pytest.mark.parametrize(
    ("needed", "words"),
    [
        ([{"signed": []}], "signed, a kind of authentication that is not supported"),
        ([{"key": [], "query": []}], "at once; name a secret for key=SECRET and query=SECRET"),
        ([{"key": [], "lost": []}], "lost, which the document does not describe"),
        ([{"basic": []}, {"granted": []}], "the user name .*; or .* the id of the client"),
        ([{"lost": []}], "lost, which the document does not describe"),
    ],
)
def test_what_authentication_lacks_is_said(needed: list[Any], words: str) -> None:
    reply = with_secret(document=changed(security=needed))
    [reason] = [each.reason for each in reply.skipped if each.operation == "PUT /pets/{petId}"]
    assert re.search(words, reason)


def test_several_keys_at_once_have_a_secret_each() -> None:
    needed: list[dict[str, list[str]]] = [{"key": [], "query": [], "cookie": [], "basic": []}]
    named = {name: tool_pb2.SecretRef(name=f"the-{name}") for name in needed[0]}
    reply = read(document=changed(security=needed), username="keeper", scheme_secrets=named)
    [http] = [spec.connection.http for spec in reply.specs if spec.name == "update_pet"]
    assert {(each.name, each.prefix, each.secret.name) for each in http.secret_headers} == {
        ("X-Key", "", "the-key"),
        ("Cookie", "sid=", "the-cookie"),
    }
    [parameter] = http.secret_parameters
    assert (parameter.parameter, parameter.secret.name) == ("key", "the-query")
    assert http.auth.basic.password.name == "the-basic"
    twice = read(
        document=changed(security=[{"basic": [], "token": []}]),
        username="keeper",
        scheme_secrets=dict.fromkeys(("basic", "token"), SECRET),
    )
    reasons = [each.reason for each in twice.skipped if each.operation == "PUT /pets/{petId}"]
    assert reasons == ["it needs basic and token in one header"]


def test_what_cannot_become_a_tool_is_named_with_its_reason() -> None:
    reasons = {each.operation: each.reason for each in with_secret().skipped}
    assert "image/png, which is no text" in reasons["POST /photos"]
    unknown = {each.operation: each.reason for each in read().skipped}
    assert "name the secret" in unknown["PUT /pets/{petId}"]


def test_operations_are_chosen_by_id_or_tag_and_named_with_a_prefix() -> None:
    assert [spec.name for spec in read(operation_tags=["Pet Store"]).specs] == ["get_pet_by_id"]
    [spec] = with_secret(operation_ids=["updatePet"], name_prefix="zoo_").specs
    assert spec.name == "zoo_update_pet"


def test_a_given_base_url_wins() -> None:
    spec = read(base_url="http://127.0.0.1:9/api/").specs[0]
    assert spec.connection.http.url_template == "http://127.0.0.1:9/api/pets/{petId}"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("swagger: '2.0'", "Swagger 2.0; convert it"),
        ("openapi: 2.9.0", "openapi is '2.9.0'"),
        ("a: [", "not YAML or JSON"),
        (PETSTORE + "x-a: 0x_\n", "'0x_' cannot be read as int; quote it in .*, line"),
        (PETSTORE + "x-a: !!int x\n", "'x' cannot be read as int"),
        (PETSTORE + f"x-a: 0x{'f' * 5_000}\n", "'0xfff.*' cannot be read as int"),
        (f'{{"a": {"1" * 5_000}}}', "'111.*' cannot be read as int"),
        (PETSTORE + "x-a: !!binary aGk=\n", "2002:binary"),
        ("[]", "not an object"),
        (changed(servers=[{"url": "/v1"}]), "say where the API runs with base_url, like .*HOST/v1"),
        (changed(paths=[]), "at /paths"),
        ("x" * (20 * 1024 * 1024 + 1), "at most"),
        ("a: &a [x,x,x,x,x,x,x,x]\n" + "\n".join(
            f"{name}: &{name} [{','.join(['*' + before] * 8)}]"
            for before, name in zip("abcdefg", "bcdefgh", strict=True)
        ), "values"),
    ],
)  # fmt: skip
def test_a_document_that_cannot_be_read_is_rejected_with_its_cause(
    document: str, words: str
) -> None:
    with pytest.raises(InvalidOpenApi, match=words):
        read(document)


def test_a_document_of_3_1_is_json_schema_already() -> None:
    document = yaml.safe_load(PETSTORE) | {"openapi": "3.1.0"}
    document["components"]["parameters"]["PetId"]["schema"] = {"type": ["integer", "null"]}
    reply = with_secret(document=yaml.safe_dump(document))
    schema = json.loads(reply.specs[0].parameters_json_schema)
    assert schema["properties"]["petId"] == {"type": ["integer", "null"]}


BROKEN = {
    "not an object": 5,
    "no place of a parameter": {"parameters": [{"name": "q", "schema": {}}]},
    "parameters of another kind": {"parameters": {"name": "q"}},
    "a foreign reference": {"parameters": [{"$ref": "http://169.254.169.254/x"}]},
    "a reference to nothing": {"requestBody": {"$ref": "#/components/none"}},
    "a loop of references": {"requestBody": {"$ref": "#/paths/~1broken/get/requestBody"}},
    "an unknown variable": {"servers": [{"url": "https://{zone}.example"}]},
    "a relative server": {"servers": [{"url": "/elsewhere"}]},
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_operation_leaves_out_itself_alone(broken: str) -> None:
    document = yaml.safe_load(PETSTORE)
    document["paths"]["/broken"] = {"get": BROKEN[broken]}
    reply = with_secret(document=yaml.safe_dump(document))
    whole = with_secret(document=changed())
    assert list(reply.specs) == list(whole.specs)
    [skipped] = [each for each in reply.skipped if each.operation == "GET /broken"]
    assert skipped.reason
    assert len(reply.skipped) == len(whole.skipped) + 1


def test_a_schema_that_refers_to_nothing_leaves_out_its_operation_alone() -> None:
    document = yaml.safe_load(PETSTORE)
    document["components"]["schemas"]["Lost"] = {"properties": {"x": {"$ref": "#/nowhere"}}}
    schema = {"type": "object", "properties": {"lost": {"$ref": "#/components/schemas/Lost"}}}
    content = {"application/json": {"schema": schema}}
    document["paths"]["/broken"] = {"post": {"requestBody": {"content": content}}}
    reply = with_secret(document=yaml.safe_dump(document))
    assert list(reply.specs) == list(with_secret(document=changed()).specs)
    [skipped] = [each for each in reply.skipped if each.operation == "POST /broken"]
    assert "'#/nowhere' names nothing" in skipped.reason


@pytest.mark.parametrize("item", [7, None, {"$ref": "other.yaml#/paths"}, []])
def test_a_broken_path_leaves_out_itself_alone(item: Any) -> None:
    document = yaml.safe_load(PETSTORE)
    document["paths"]["/broken"] = item
    reply = with_secret(document=yaml.safe_dump(document))
    assert list(reply.specs) == list(with_secret(document=changed()).specs)
    assert "/broken" in {each.operation for each in reply.skipped}


def test_half_a_character_in_a_document_becomes_a_whole_one() -> None:
    document = json.dumps(yaml.safe_load(changed(info={"title": "a", "version": "1"})), default=str)
    reply = read(document.replace('"title": "a"', '"title": "a\\ud800"'))
    assert reply.title == "a\ufffd 1"


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


NODES_MAX = 1_000
DEPTH_MAX = 100


@pytest.fixture(autouse=True)
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "YAML_NODES_MAX", NODES_MAX)
    monkeypatch.setattr(document, "YAML_DEPTH_MAX", DEPTH_MAX)


def doubling(levels: int, each: str) -> str:
    lines = ["a0: &a0 {k: v}"]
    for level in range(1, levels + 1):
        ten = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} {each.replace('TEN', f'[{ten}]')}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (doubling(2, "{<<: TEN}"), r"line 2: merge keys \(<<\) are not read; write out the fields"),
        ("a: &a {k: v}\nb: {!!merge any: *a}", "line 2: merge keys"),
        (doubling(3, "TEN"), f"more than {NODES_MAX} values, those of an alias counted"),
        ("[" + "a," * NODES_MAX + "]", f"more than {NODES_MAX} values"),
        ("a: " + "[" * DEPTH_MAX + "]" * DEPTH_MAX, f"line 1: .* more than {DEPTH_MAX} deep"),
        ("a: &a\n  b: [*a]", r"line 2: the alias \*a names what it is part of"),
        ("a: *b", r"line 1: the alias \*b names what it is part of, or nothing"),
    ],
    ids=["merges", "tagged merges", "aliases", "values", "depth", "itself", "nothing"],
)
def test_what_expands_without_end_is_rejected_with_its_line(text: str, why: str) -> None:
    with pytest.raises(InvalidOpenApi, match=why):
        loaded_yaml(text)


def test_aliases_and_a_quoted_name_that_looks_like_a_merge_are_read() -> None:
    text = "first: &a {day: 2020-01-01}\nsecond: [*a, *a]\n'<<': 1"
    day = {"day": "2020-01-01"}
    assert loaded_yaml(text) == {"first": day, "second": [day, day], "<<": 1}


def test_a_document_with_a_merge_key_says_so() -> None:
    with pytest.raises(InvalidOpenApi, match="merge keys"):
        read(PETSTORE + "x-more: {<<: {a: 1}}\n")
