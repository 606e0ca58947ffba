"""OpenAPI documents of tests, and what the registry reads of them."""

import json
from typing import Any

import yaml

from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from tool_registry.tools.checks import check_parameters_schema
from tool_registry.tools.convert_openapi import read_openapi

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
    cookie: {type: apiKey, in: cookie, name: sid}
    signed: {type: http, scheme: hoba}
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


def only(operation: dict[str, Any], schemas: dict[str, Any] | None = None) -> tool_pb2.ToolSpec:
    """The tool of a document with one operation, `POST /things/{id}`."""
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Things", "version": "1"},
        "servers": [{"url": "https://things.example"}],
        "paths": {"/things/{id}": {"post": operation}},
        "components": {"schemas": schemas or {}},
    }
    reply = read(document=json.dumps(document))
    assert not reply.skipped
    [spec] = reply.specs
    return spec


def body(schema: Any, media_type: str = "application/json", **media: Any) -> dict[str, Any]:
    content = {media_type: {"schema": schema, **media}}
    return {"requestBody": {"required": True, "content": content}}


def schema_of(spec: tool_pb2.ToolSpec) -> Any:
    # Reading does not ask whether it is a schema; registering does.
    return check_parameters_schema(spec.parameters_json_schema)
