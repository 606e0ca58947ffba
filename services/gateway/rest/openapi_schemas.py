"""JSON Schemas of protobuf messages, from their descriptors."""

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

Schema = dict[str, Any]
F = FieldDescriptor
INTEGER: Schema = {
    "type": "integer",
    "format": "int32",
    "minimum": -(2**31),
    "maximum": 2**31 - 1,
}
# 64 bits do not fit a JavaScript number, so protobuf's JSON writes them as strings.
LONG: Schema = {"type": "string", "format": "int64", "pattern": "^-?[0-9]{1,19}$"}
NUMBER: Schema = {"type": "number"}
SCALARS: dict[int, Schema] = {
    F.TYPE_BOOL: {"type": "boolean"},
    F.TYPE_STRING: {"type": "string"},
    F.TYPE_BYTES: {"type": "string", "format": "byte"},
    F.TYPE_FLOAT: NUMBER,
    F.TYPE_DOUBLE: NUMBER,
    **dict.fromkeys((F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_UINT32, F.TYPE_FIXED32), INTEGER),
    **dict.fromkeys((F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_UINT64, F.TYPE_FIXED64), LONG),
}
WELL_KNOWN: dict[str, Schema] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {
        "type": "string",
        "pattern": r"^-?[0-9]{1,12}(\.[0-9]{1,9})?s$",
        "example": "1.5s",
    },
    "google.protobuf.FieldMask": {"type": "string", "example": "hardLimit,endTime"},
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Value": {},
}


class MessageSchemas:
    """Collects the schema of every message that is referred to, under its full name."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}

    def wrapped(self, message: Descriptor, name: str) -> Schema:
        """Of what a field of the message holds."""
        return self._single(message.fields_by_name[name])

    def reference(self, message: Descriptor) -> Schema:
        if message.full_name in WELL_KNOWN:
            return WELL_KNOWN[message.full_name]
        if message.full_name not in self.components:
            # Named before it is filled: messages may contain themselves.
            schema: Schema = {"type": "object"}
            self.components[message.full_name] = schema
            schema["properties"] = {each.name: self.field(each) for each in message.fields}
        return {"$ref": f"#/components/schemas/{message.full_name}"}

    def field(self, field: FieldDescriptor) -> Schema:
        message = field.message_type
        if message is not None and message.GetOptions().map_entry:
            value = message.fields_by_name["value"]
            entries = self._single(value)
            return {"type": "object", "additionalProperties": entries, "default": {}}
        if field.is_repeated:
            return {"type": "array", "items": self._single(field), "default": []}
        if field.has_presence or field.enum_type is not None:
            return self._single(field)
        return {**self._single(field), "default": _default(field)}

    def _single(self, field: FieldDescriptor) -> Schema:
        if field.message_type is not None:
            return self.reference(field.message_type)
        if field.enum_type is not None:
            # What says that nothing is said is left out, in requests and in answers.
            values = [each.name for each in field.enum_type.values if each.number]
            return {"type": "string", "enum": values}
        return SCALARS[field.type]


def _default(field: FieldDescriptor) -> Any:
    """What an answer writes for the field when it is unset, and a request may leave out."""
    written_as_text = SCALARS[field.type]["type"] == "string"
    if field.type == F.TYPE_BYTES:
        return ""
    return str(field.default_value) if written_as_text else field.default_value
