"""Messages as people write them: the way back of what `documents` reads."""

import json
from typing import Any

import yaml
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from podium_kit.wire import enum_words, json_values
from podium_kit.wire.written_messages import WRITTEN_NAMES


def written(message: Message) -> dict[str, Any]:
    """Its given fields in people's words: short enums, money as text, schemas as mappings."""
    return _mapping(json_values(message), message.DESCRIPTOR)


def as_yaml(message: Message) -> str:
    """A document that `apply` takes."""
    return yaml.safe_dump(written(message), sort_keys=False, allow_unicode=True)


# The stubs know two kinds of Descriptor, hence Any.
def _mapping(values: dict[str, Any], kind: Any) -> dict[str, Any]:
    # Copies: protobuf's own maps are slow to ask, and fail on some keys.
    fields = {**kind.fields_by_name}
    found = {}
    for name, value in values.items():
        if value in ("", 0, False, None, [], {}) and not fields[name].has_presence:
            continue
        if value is None or value == {}:
            continue
        if name in WRITTEN_NAMES:
            found[WRITTEN_NAMES[name]] = json.loads(value)
        else:
            found[name] = _value(value, fields[name])
    return {name: value for name, value in found.items() if value != {}}


def _value(value: Any, field: FieldDescriptor) -> Any:
    if isinstance(value, list):
        return [_value(each, field) for each in value]
    if field.enum_type is not None:
        number = field.enum_type.values_by_name[value].index
        return enum_words(field.enum_type)[number - 1] if number else value
    kind = field.message_type
    if kind is None or not isinstance(value, dict):
        return value
    if kind.name == "Money":
        return f"{value['amount']} {value['currency_code']}"
    if kind.GetOptions().map_entry:
        inner = kind.fields_by_name["value"]
        return {name: _value(each, inner) for name, each in value.items()}
    return _mapping(value, kind)
