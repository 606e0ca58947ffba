from functools import cache
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

ENUM, MESSAGE = FieldDescriptor.TYPE_ENUM, FieldDescriptor.TYPE_MESSAGE


def json_values(message: Message) -> dict[str, Any]:
    """The message under its own field names, unset fields included.

    Enums at 0 are left out, because they are unspecified.
    """
    values: dict[str, Any] = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    _leave_out_unset(values, message.DESCRIPTOR)
    return values


# The stubs know two kinds of descriptors, hence Any.
def _leave_out_unset(values: dict[str, Any], owner: Any) -> None:
    enums, messages = _parts(owner)
    for name, unset in enums:
        value = values.get(name)
        if isinstance(value, list):
            values[name] = [each for each in value if each != unset]
        elif isinstance(value, dict):
            values[name] = {key: each for key, each in value.items() if each != unset}
        elif value == unset:
            del values[name]
    for name, inner, is_map in messages:
        value = values.get(name)
        if not value:
            continue
        for each in value.values() if is_map else value if isinstance(value, list) else [value]:
            _leave_out_unset(each, inner)


@cache
def _parts(owner: Any) -> tuple[list[tuple[str, str]], list[tuple[str, Any, bool]]]:
    """The enums with their unset value, and the fields of messages: type, and whether in a map."""
    enums, messages = [], []
    for field in owner.fields:
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        held = field.message_type.fields_by_name["value"] if is_map else field
        # Google's own types are written as texts, or as JSON of their own.
        if held.type == MESSAGE and not held.message_type.full_name.startswith("google.protobuf."):
            messages.append((field.name, held.message_type, is_map))
        elif held.type == ENUM:
            enums.append((field.name, held.enum_type.values_by_number[0].name))
    return enums, messages


def enum_word(name: str, prefix: str) -> str:
    """ "turn limit" of ("STOP_REASON_TURN_LIMIT", "STOP_REASON_")."""
    return name.removeprefix(prefix).lower().replace("_", " ")
