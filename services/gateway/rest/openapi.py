import re
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from gateway.http.error_responses import FAULT, HTTP_OF
from gateway.rest.messages import method_of
from gateway.rest.openapi_schemas import MessageSchemas, Schema
from gateway.rest.routes import ROUTES, Route
from gateway.rest.transcoding import JSON_LINES, WITH_BODY
from gateway.scopes import SECURITY_SCHEME, security
from podium_kit.rpc.access import access_of
from podium_kit.rpc.bounds import bounds_of

PATH_PARAMETER = re.compile(r"\{(\w+)\}")
# Those of domain errors, and what is answered before there is one: a body that is too slow or too
# large, a method that is not allowed.
ERROR_STATUSES = sorted(
    {HTTPStatus(status) for status, _ in (*HTTP_OF.values(), FAULT)}
    | {HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.REQUEST_TIMEOUT}
    | {HTTPStatus.REQUEST_ENTITY_TOO_LARGE}
)
ERROR: Schema = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": ["error"]},
        "request_id": {"type": "string", "description": "also in the header x-request-id"},
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string", "description": "cause and fix"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": "string", "description": "the reason in lower case"},
                "reason": {"type": "string", "description": "stable name, like MODEL_NOT_FOUND"},
                "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        },
    },
}


def document(app: FastAPI) -> dict[str, Any]:
    spec = get_openapi(
        title="Podium", version=app.version, description=app.description, routes=app.routes
    )
    schemas = MessageSchemas(list(_fields_in_paths()))
    for route in ROUTES:
        spec["paths"].setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    components = spec.setdefault("components", {})
    components.setdefault("schemas", {}).update({**schemas.components, "Error": ERROR})
    components["securitySchemes"] = {SECURITY_SCHEME: {"type": "http", "scheme": "bearer"}}
    spec["security"] = security(())
    components["responses"] = {_error_name(status): _error(status) for status in ERROR_STATUSES}
    for path in spec["paths"].values():
        for operation in path.values():
            _describe_errors(operation)
    return spec


def document_of(app: FastAPI) -> dict[str, Any]:
    app.openapi_schema = app.openapi_schema or document(app)
    return app.openapi_schema


def documented_methods(app: FastAPI, path: str) -> list[str]:
    """Returns the methods of the document's most specific path that fits; none without one."""
    paths = document_of(app)["paths"]
    fitting = [each for each in paths if _pattern(each).fullmatch(path)]
    if not fitting:
        return []
    best = min(fitting, key=lambda each: (each.count("{"), -len(each)))
    return sorted(method.upper() for method in paths[best])


@cache
def _pattern(path: str) -> re.Pattern[str]:
    parts = PATH_PARAMETER.split(path)
    # Every second part is the name of a parameter; some of their values hold slashes.
    return re.compile(".+".join(map(re.escape, parts[::2])))


def _operation(route: Route, schemas: MessageSchemas) -> Schema:
    method = method_of(route)
    reply, media = schemas.reference(method.output_type), "application/json"
    if route.json_lines:
        media = JSON_LINES
    elif method.server_streaming:
        # Of each server-sent event the data: what the response wraps.
        reply, media = schemas.wrapped(method.output_type, "event"), "text/event-stream"
    operation: Schema = {
        "operationId": f"{route.rpc}Rest",
        "tags": [method.containing_service.name.removesuffix("Service")],
        "security": security(access_of(f"{route.service}/{route.rpc}").scopes),
        "parameters": _parameters(route, method.input_type, schemas),
        "responses": {"200": {"description": "OK", "content": {media: {"schema": reply}}}},
    }
    if route.method in WITH_BODY:
        body = {"application/json": {"schema": schemas.reference(method.input_type)}}
        operation["requestBody"] = {"content": body}
    return operation


def _fields_in_paths() -> Iterator[FieldDescriptor]:
    for route in ROUTES:
        fields = method_of(route).input_type.fields_by_name
        yield from (fields[name] for name in PATH_PARAMETER.findall(route.path))


def _parameters(route: Route, request: Descriptor, schemas: MessageSchemas) -> list[Schema]:
    in_path = PATH_PARAMETER.findall(route.path)
    places = dict.fromkeys(in_path, "path")
    if route.method not in WITH_BODY:
        places |= {each.name: "query" for each in request.fields if each.name not in in_path}
    return [
        {
            "name": name,
            "in": place,
            "required": place == "path" or bounds_of(request.fields_by_name[name]).required,
            "schema": schemas.field(request.fields_by_name[name], in_path=place == "path"),
        }
        for name, place in places.items()
    ]


def _describe_errors(operation: Schema) -> None:
    # FastAPI promises its own 422, which our handler never sends.
    operation["responses"].pop("422", None)
    for status in ERROR_STATUSES:
        reference = {"$ref": f"#/components/responses/{_error_name(status)}"}
        operation["responses"].setdefault(str(status), reference)


def _error(status: HTTPStatus) -> Schema:
    schema = {"schema": {"$ref": "#/components/schemas/Error"}}
    return {"description": status.phrase, "content": {"application/json": schema}}


def _error_name(status: HTTPStatus) -> str:
    return "".join(word.capitalize() for word in status.name.split("_"))
