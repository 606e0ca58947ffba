import json
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from gateway.errors import MalformedRequest
from gateway.rest.routes import Route
from podium_kit.wire import InvalidField, json_values, merge_written

BOOLEANS = {"true": True, "false": False}


def method_of(route: Route) -> MethodDescriptor:
    """The RPC's descriptor; its contract must have been imported."""
    service = descriptor_pool.Default().FindServiceByName(route.service)
    method: MethodDescriptor = service.methods_by_name[route.rpc]
    return method


def new_request(method: MethodDescriptor) -> Message:
    message: Message = GetMessageClass(method.input_type)()
    return message


def merge_body(message: Message, body: bytes) -> None:
    """Fields from a JSON object, in snake_case or camelCase. Raises MalformedRequest."""
    if not body.strip():
        return
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedRequest(f"the body is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise MalformedRequest("the body must be a JSON object")
    merge_fields(message, values)


def merge_fields(message: Message, values: Mapping[str, Any]) -> None:
    """Fields from JSON values; those already set stay. Raises MalformedRequest."""
    try:
        merge_written(values, message)
    except InvalidField as error:
        raise MalformedRequest(str(error)) from error


def merge_query(message: Message, query: Iterable[tuple[str, str]]) -> None:
    """Fields from `name=value` pairs: repeated ones by repetition, fields of messages and
    entries of maps with a dot (`labels.team=search`). Raises MalformedRequest."""
    values: dict[str, Any] = {}
    for name, text in query:
        _put(values, message.DESCRIPTOR, name, name.split("."), text)
    merge_fields(message, values)


# The stubs know two kinds of Descriptor, hence Any.
def _put(values: dict[str, Any], owner: Any, name: str, path: list[str], text: str) -> None:
    field = _field(owner, path[0])
    if field is None or (len(path) > 1 and field.message_type is None):
        known = ", ".join(each.name for each in owner.fields)
        raise MalformedRequest(f"unknown query parameter {name}; known are {known}", param=name)
    inner, rest = field.message_type, ".".join(path[1:])
    is_map = inner is not None and inner.GetOptions().map_entry
    if rest:
        inside = values.setdefault(field.name, {})
        if not isinstance(inside, dict):
            raise MalformedRequest(f"{field.name} is given both whole and in parts", param=name)
        if is_map:
            inside[rest] = text
        else:
            _put(inside, inner, name, path[1:], text)
    elif field.is_repeated and not is_map:
        values[field.name] = [*values.get(field.name, []), _scalar(field, text)]
    else:
        values[field.name] = _scalar(field, text)


def _field(owner: Any, name: str) -> FieldDescriptor | None:
    found: FieldDescriptor | None = owner.fields_by_name.get(name)
    return found or owner.fields_by_camelcase_name.get(name)


def _scalar(field: FieldDescriptor, text: str) -> Any:
    # JSON numbers may be written as strings; booleans may not.
    return BOOLEANS.get(text, text) if field.type == FieldDescriptor.TYPE_BOOL else text


def to_json(message: Message) -> bytes:
    return json.dumps(json_values(message), ensure_ascii=False).encode()
