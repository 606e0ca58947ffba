"""Requests of the REST API at each bound of their contract, and just outside of it."""

import base64
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from gateway.rest.messages import method_of
from gateway.rest.routes import ROUTES, Route
from podium_kit.rpc.bounds import Bounds, bounds_of, number_text

Json = Any
SAMPLES: dict[str, Json] = {
    "google.protobuf.Timestamp": "2026-01-01T00:00:00Z",
    "google.protobuf.Duration": "1s",
    "google.protobuf.FieldMask": "hardLimit",
}
# None of them fits every pattern, and each that there is fails one of them.
STRANGE = ("!", ":")


@dataclass(frozen=True)
class Case:
    """A request in which all is right but, where it is outside, the one field."""

    route: Route
    field: str
    bound: str
    body: dict[str, Json]
    outside: bool


def cases() -> Iterator[Case]:
    for route in ROUTES:
        request = method_of(route).input_type
        in_path = re.findall(r"\{(\w+)\}", route.path)
        base = {**minimal(request), **{name: _path_sample(request, name) for name in in_path}}
        for field, bound, given, outside in _of_message(request, (), set(in_path)):
            yield Case(route, field, bound, _merged(base, given), outside)


def minimal(message: Descriptor) -> dict[str, Json]:
    return {each.name: _sample(each) for each in message.fields if bounds_of(each).required}


def _path_sample(request: Descriptor, name: str) -> Json:
    return text_for(bounds_of(request.fields_by_name[name]).pattern) or "some"


Found = tuple[str, str, dict[str, Json], bool]


def _of_message(message: Descriptor, above: tuple[str, ...], in_path: set[str]) -> Iterator[Found]:
    for field in message.fields:
        name, bounds = field.name, bounds_of(field)
        if bounds.required and name not in in_path:
            yield name, "required", {name: None}, True
        is_map = _is_map(field)
        if field.is_repeated:
            if bounds.max_items:
                yield name, "max_items", {name: _many(field, bounds.max_items)}, False
                yield name, "max_items", {name: _many(field, bounds.max_items + 1)}, True
            for bound, value, outside in _values(_item(field), bounds.each):
                given = {"k": value} if is_map else [value]
                yield f"{name}['k']" if is_map else f"{name}[0]", bound, {name: given}, outside
            for bound, key, outside in _values(field, bounds.keys, of_keys=True):
                yield f"{name}[{key[:60]!r}]", bound, {name: {key: ""}}, outside
        else:
            for bound, value, outside in _values(field, bounds):
                yield name, bound, {name: value}, outside
        held = _item(field).message_type
        if held is None or bounds.apart or held.full_name in (*above, *SAMPLES):
            continue
        for inner, bound, value, outside in _of_message(held, (*above, message.full_name), set()):
            whole = _merged(minimal(held), value)
            place = f"{name}['k']" if is_map else f"{name}[0]" if field.is_repeated else name
            given = {"k": whole} if is_map else [whole] if field.is_repeated else whole
            yield f"{place}.{inner}", bound, {name: given}, outside


def _values(
    field: FieldDescriptor, bounds: Bounds, of_keys: bool = False
) -> Iterator[tuple[str, Json, bool]]:
    if bounds.max_characters and not bounds.pattern:
        yield "max_characters", "a" * bounds.max_characters, False
    if bounds.max_characters:
        yield "max_characters", "a" * (bounds.max_characters + 1), True
    if bounds.max_bytes:
        for more in (0, 1):
            text = "a" * (bounds.max_bytes + more)
            in_base64 = base64.b64encode(text.encode()).decode()
            value = in_base64 if field.type == FieldDescriptor.TYPE_BYTES else text
            yield "max_bytes", value, bool(more)
    if bounds.pattern:
        yield "pattern", text_for(bounds.pattern), False
        outside = next(each for each in STRANGE if not re.fullmatch(bounds.pattern, each))
        yield "pattern", outside, True
    if bounds.required and (of_keys or field.is_repeated):
        yield "required", "", True
    for bound, step in (("minimum", -1), ("maximum", 1)):
        if bounds.HasField(bound):  # type: ignore[arg-type]
            yield bound, _number(field, getattr(bounds, bound)), False
            yield bound, _number(field, getattr(bounds, bound) + step), True


def _number(field: FieldDescriptor, value: float) -> Json:
    if field.message_type is not None:
        return f"{number_text(value)}s"
    return value if field.type == FieldDescriptor.TYPE_DOUBLE else int(value)


def _many(field: FieldDescriptor, count: int) -> Json:
    if not _is_map(field):
        return [_sample_of_item(field)] * count
    return {f"k{number}": _sample_of_item(field) for number in range(count)}


def _sample(field: FieldDescriptor) -> Json:
    if field.is_repeated:
        return _many(field, 1)
    return _single(field, bounds_of(field))


def _sample_of_item(field: FieldDescriptor) -> Json:
    return _single(_item(field), bounds_of(field).each)


def _single(field: FieldDescriptor, bounds: Bounds) -> Json:
    if field.message_type is not None:
        name = field.message_type.full_name
        return SAMPLES.get(name) or minimal(field.message_type)
    if field.enum_type is not None:
        return next(each.name for each in field.enum_type.values if each.number)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return "QQ=="
    if field.type == FieldDescriptor.TYPE_STRING:
        return text_for(bounds.pattern) if bounds.pattern else "some"
    return 1


def _item(field: FieldDescriptor) -> FieldDescriptor:
    """The field that says what a list's items or a map's values are."""
    entry = field.message_type
    return entry.fields_by_name["value"] if entry is not None and _is_map(field) else field


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _merged(base: dict[str, Json], given: dict[str, Json]) -> dict[str, Json]:
    """None takes a field away."""
    both = {**base, **given}
    return {name: value for name, value in both.items() if value is not None}


def text_for(pattern: str) -> str:
    # Untyped, and no attribute of re that its stubs know.
    parser = importlib.import_module("re._parser")
    return _written(parser.parse(pattern)) if pattern else ""


def _written(parts: Any) -> str:
    return "".join(_part(str(kind), value) for kind, value in parts)


def _part(kind: str, value: Any) -> str:
    match kind:
        case "LITERAL":
            return chr(value)
        case "ANY" | "NOT_LITERAL":
            return "a"
        case "IN":
            first_kind, first = value[0]
            if str(first_kind) == "NEGATE":
                return "a"
            return chr(first[0] if str(first_kind) == "RANGE" else first)
        case "MAX_REPEAT":
            least, _most, what = value
            return "".join([_written(what)] * least)
        case "SUBPATTERN":
            return _written(value[-1])
        case "BRANCH":
            return _written(value[1][0])
    raise ValueError(f"no text for {kind}: extend this function")
