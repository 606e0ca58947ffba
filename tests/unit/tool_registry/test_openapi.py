import json
import re
from typing import Any

import pytest
import yaml

from openapi_builders import PETSTORE, changed, read, with_secret
from podium.registry.v1 import tool_pb2
from tool_registry.tools.openapi.errors import InvalidOpenApi


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
