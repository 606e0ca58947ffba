"""OpenAPI documents as tools: arguments, where they go, and what is left out and why."""

import json
import re
from typing import Any

import pytest
import yaml

from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from tool_registry.tools.convert_openapi import read_openapi
from tool_registry.tools.openapi.errors import InvalidOpenApi

PETSTORE = """
openapi: 3.0.3
info: {title: Pets, version: "1.2"}
servers: [{url: "https://{region}.pets.example/v1", variables: {region: {default: eu}}}]
security: [{token: []}]
paths:
  /pets/{petId}:
    parameters:
      - $ref: '#/components/parameters/PetId'
    get:
      operationId: getPetById
      summary: Finds a pet.
      tags: [Pet Store]
      security: []
      parameters:
        - {name: fields, in: query, schema: {type: array, items: {type: string}}}
        - {name: X-Trace, in: header, description: Passed on., schema: {type: string}}
        - {name: session, in: cookie, schema: {type: string}}
      responses: {200: {description: ok}}
    put:
      operationId: updatePet
      description: Changes a pet.
      requestBody:
        required: true
        content:
          application/json: {schema: {$ref: '#/components/schemas/Pet'}}
      responses: {'200': {description: ok}}
  /photos:
    post:
      operationId: addPhoto
      requestBody: {required: true, content: {image/png: {}}}
      responses: {'200': {description: ok}}
  /trees:
    post:
      operationId: plantTree
      requestBody:
        content:
          application/json: {schema: {$ref: '#/components/schemas/Tree'}}
      responses: {'200': {description: ok}}
components:
  securitySchemes:
    token: {type: http, scheme: bearer}
    key: {type: apiKey, in: header, name: X-Key}
    query: {type: apiKey, in: query, name: key}
    cookie: {type: apiKey, in: cookie, name: key}
    basic: {type: http, scheme: Basic}
    granted:
      type: oauth2
      flows: {clientCredentials: {tokenUrl: /token, scopes: {"pets:write": Change pets.}}}
    lent: {type: oauth2, flows: {implicit: {authorizationUrl: "https://a.example", scopes: {}}}}
  parameters:
    PetId:
      name: petId
      in: path
      required: true
      schema: {type: integer, minimum: 0, exclusiveMinimum: true}
  schemas:
    Pet:
      type: object
      required: [id, name]
      properties:
        id: {type: integer, readOnly: true}
        name: {type: string, nullable: true}
        example: {type: string, description: A property of this name is no keyword.}
        owner: {$ref: '#/components/schemas/Owner'}
    Owner:
      allOf: [{type: object, properties: {born: {type: string, format: date, example: 2020-01-01}}}]
    Tree:
      type: object
      properties: {children: {type: array, items: {$ref: '#/components/schemas/Tree'}}}
"""


def read(document: str = PETSTORE, **fields: Any) -> pb.ReadOpenApiResponse:
    return read_openapi(pb.ReadOpenApiRequest(document=document, **fields))


def with_secret(**fields: Any) -> pb.ReadOpenApiResponse:
    return read(secret=tool_pb2.SecretRef(name="pets"), **fields)


def changed(**changes: Any) -> str:
    return yaml.safe_dump(yaml.safe_load(PETSTORE) | changes)


def test_arguments_go_where_the_operation_wants_them() -> None:
    reply = with_secret()
    get, put = reply.specs
    assert (get.name, get.side_effect) == ("get_pet_by_id", tool_pb2.SIDE_EFFECT_PURE)
    assert get.description == "Finds a pet." and list(get.tags) == ["pet-store"]
    http = get.connection.http
    assert (http.method, http.url_template) == ("GET", "https://eu.pets.example/v1/pets/{petId}")
    assert dict(http.parameter_locations) == {
        "petId": tool_pb2.PARAMETER_LOCATION_PATH,
        "fields": tool_pb2.PARAMETER_LOCATION_QUERY,
        "X-Trace": tool_pb2.PARAMETER_LOCATION_HEADER,
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
    ],
)
def test_a_secret_is_named_and_put_where_the_scheme_says(
    needed: dict[str, Any], expected: dict[str, Any]
) -> None:
    document = changed(security=[{"cookie": []}, needed])
    reply = with_secret(document=document, username="keeper", client_id="zoo")
    http = reply.specs[1].connection.http
    http.ClearField("parameter_locations")
    wanted = tool_pb2.HttpConnection(method="PUT", url_template=http.url_template, **expected)
    assert http == wanted


@pytest.mark.parametrize(
    ("needed", "words"),
    [
        ([{"cookie": []}], "cookie, a kind of authentication that is not supported"),
        ([{"key": [], "query": []}], "key and query at once"),
        ([{"basic": []}, {"granted": []}], "the user name .*; or .* the id of the client"),
        ([{"lost": []}], "lost, which the document does not describe"),
    ],
)
def test_what_authentication_lacks_is_said(needed: list[Any], words: str) -> None:
    reply = with_secret(document=changed(security=needed))
    [reason] = [each.reason for each in reply.skipped if each.operation == "PUT /pets/{petId}"]
    assert re.search(words, reason)


def test_what_cannot_become_a_tool_is_named_with_its_reason() -> None:
    reasons = {each.operation: each.reason for each in with_secret().skipped}
    assert "image/png, not JSON" in reasons["POST /photos"]
    assert "recursive" in reasons["POST /trees"]
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
        ("swagger: '2.0'", "openapi is None"),
        ("a: [", "not YAML or JSON"),
        ("[]", "not an object"),
        (changed(servers=[{"url": "/v1"}]), "give base_url"),
        (changed(paths={"/a": {"get": {}}}), "at /paths"),
        (
            changed(components={"schemas": {"A": {"$ref": "http://169.254.169.254/x"}}}),
            "is not local",
        ),
        ("x" * (2 * 1024 * 1024 + 1), "at most"),
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


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (
            changed(paths={"/a": {"get": {"responses": {"200": {"$ref": "#/components/none"}}}}}),
            "a $ref to /components/none names nothing",
        ),
        (changed(servers=[{"url": "https://{zone}.example"}]), "has {zone}, and no such variable"),
        (changed(paths=[]), "at /paths"),
        (changed(paths={"/a": {"get": {"responses": None}}}), "/paths"),
    ],
)
def test_a_fault_of_the_document_is_said_with_its_place(document: str, why: str) -> None:
    with pytest.raises(InvalidOpenApi) as error:
        read(document)
    assert why in str(error.value)


def test_half_a_character_in_a_document_becomes_a_whole_one() -> None:
    document = json.dumps(yaml.safe_load(changed(info={"title": "a", "version": "1"})), default=str)
    reply = read(document.replace('"title": "a"', '"title": "a\\ud800"'))
    assert reply.title == "a\ufffd 1"
