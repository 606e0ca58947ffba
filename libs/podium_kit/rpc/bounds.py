"""Bounds on the fields of requests: the contract states them (podium.common.v1.bounds), and every
server enforces them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from podium.common.v1 import bounds_pb2
from podium_kit.rpc.errors import InvalidArgument

Bounds = bounds_pb2.Bounds
DURATION = "google.protobuf.Duration"
SHOWN_CHARACTERS_MAX = 60
TEXTS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


class OutOfBounds(InvalidArgument):
    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field} {problem}", param=field)


@dataclass(frozen=True)
class BoundedField:
    """A field with bounds, or one whose messages have some."""

    name: str
    bounds: Bounds
    is_map: bool
    is_list: bool
    # Whether it may be unset without being its default.
    has_presence: bool
    # Whether fields of what it holds are bounded.
    holds_bounded: bool
    # Whether it is a text or a list, which are empty and not unset.
    empties: bool
    # Whether errors may show what it holds.
    shown: bool


def bounds_of(field: FieldDescriptor) -> Bounds:
    found: Bounds = field.GetOptions().Extensions[bounds_pb2.bounds]
    return found


def require_bounds(message: Message, path: str = "") -> None:
    for field in _bounded_fields(message.DESCRIPTOR):
        _check_field(message, field, f"{path}.{field.name}" if path else field.name)


def _check_field(message: Message, field: BoundedField, path: str) -> None:
    value = getattr(message, field.name)
    is_set = message.HasField(field.name) if field.has_presence else bool(value)
    if not is_set:
        if field.bounds.required:
            raise OutOfBounds(path, f"is {'empty' if field.empties else 'unset'}; give it a value")
        return
    bounds = field.bounds
    if field.is_list or field.is_map:
        if bounds.max_items and len(value) > bounds.max_items:
            raise OutOfBounds(path, f"holds {len(value)}; give at most {bounds.max_items}")
        if bounds.HasField("keys"):
            for key in value:
                _check_value(key, bounds.keys, f"{path}[{_shortened(key)!r}]", shown=True)
        if bounds.HasField("each"):
            for place, each in _items(value, path):
                _check_value(each, bounds.each, place, shown=field.shown)
    else:
        _check_value(value, bounds, path, shown=field.shown)
    if field.holds_bounded and not bounds.apart:
        held = _items(value, path) if field.is_list or field.is_map else [(path, value)]
        for place, each in held:
            require_bounds(each, place)


def _items(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return ((f"{path}[{_shortened(key)!r}]", each) for key, each in value.items())
    return ((f"{path}[{index}]", each) for index, each in enumerate(value))


def _check_value(value: Any, bounds: Bounds, path: str, *, shown: bool) -> None:
    if isinstance(value, str | bytes):
        _check_text(value, bounds, path, shown=shown)
    elif isinstance(value, Message):
        if value.DESCRIPTOR.full_name == DURATION:
            _check_number(value.seconds + value.nanos / 1e9, bounds, path, " s")  # type: ignore[attr-defined]
    else:
        _check_number(value, bounds, path, "")


def _check_text(value: str | bytes, bounds: Bounds, path: str, *, shown: bool) -> None:
    if bounds.required and not value:
        raise OutOfBounds(path, "is empty; give it a value")
    if bounds.max_characters and len(value) > bounds.max_characters:
        raise OutOfBounds(
            path, f"has {len(value)} characters; give at most {bounds.max_characters}"
        )
    if bounds.max_bytes:
        size = len(value.encode(errors="surrogatepass") if isinstance(value, str) else value)
        if size > bounds.max_bytes:
            raise OutOfBounds(path, f"has {size} bytes; give at most {bounds.max_bytes}")
    if bounds.pattern and isinstance(value, str) and not _compiled(bounds.pattern).fullmatch(value):
        found = f"is {_shortened(value)!r}" if shown else "is something else"
        raise OutOfBounds(path, f"{found}; give {bounds.pattern_in_words}")


def _check_number(value: float, bounds: Bounds, path: str, unit: str) -> None:
    least = bounds.minimum if bounds.HasField("minimum") else None
    most = bounds.maximum if bounds.HasField("maximum") else None
    # Written so that what is no number is outside.
    inside = (least is None or value >= least) and (most is None or value <= most)
    if inside:
        return
    if least is None:
        asked = f"at most {number_text(most or 0.0)}{unit}"
    elif most is None:
        asked = f"{number_text(least)}{unit} or more"
    else:
        asked = f"{number_text(least)} to {number_text(most)}{unit}"
    raise OutOfBounds(path, f"is {number_text(value)}{unit}; give {asked}")


def number_text(value: float) -> str:
    """Writes a number as people do: 4294967296 and 0.5, a whole one without an exponent."""
    return str(int(value)) if value == value // 1 and abs(value) < 1e18 else f"{value:g}"


def _shortened(text: object) -> str:
    return str(text)[:SHOWN_CHARACTERS_MAX]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


# By name: descriptors of the same message are not always the same object.
_FIELDS: dict[str, tuple[BoundedField, ...]] = {}


# The stubs know two kinds of Descriptor, hence Any.
def _bounded_fields(message: Any) -> tuple[BoundedField, ...]:
    name = message.full_name
    if name not in _FIELDS:
        found = (_bounded_field(field) for field in message.fields)
        _FIELDS[name] = tuple(each for each in found if each is not None)
    return _FIELDS[name]


def _bounded_field(field: FieldDescriptor) -> BoundedField | None:
    held = _held(field)
    options, bounds = field.GetOptions(), bounds_of(field)
    holds_bounded = held is not None and _leads_to_bounds(held, set())
    if not options.HasExtension(bounds_pb2.bounds) and not holds_bounded:
        return None
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    return BoundedField(
        name=field.name,
        bounds=bounds,
        is_map=is_map,
        is_list=field.is_repeated and not is_map,
        has_presence=field.has_presence,
        holds_bounded=holds_bounded,
        empties=field.is_repeated or field.type in TEXTS,
        shown=not options.debug_redact,
    )


def _held(field: FieldDescriptor) -> Descriptor | None:
    message: Descriptor | None = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return message.fields_by_name["value"].message_type
    return message


def _leads_to_bounds(message: Descriptor, seen: set[str]) -> bool:
    if message.full_name in seen:
        return False
    seen.add(message.full_name)
    return any(
        field.GetOptions().HasExtension(bounds_pb2.bounds)
        or ((held := _held(field)) is not None and _leads_to_bounds(held, seen))
        for field in message.fields
    )
