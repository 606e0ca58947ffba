from collections.abc import Collection
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from podium_kit.rpc.bounds import Bounds, bounds_of, number_text

Schema = dict[str, Any]
DIGITS_MAX = 19
SECONDS_DIGITS_MAX = 12


def bounded_list(items: Schema, bounds: Bounds) -> Schema:
    schema: Schema = {"type": "array", "items": bounded(items, bounds.each, needed=True)}
    if bounds.max_items:
        schema["maxItems"] = bounds.max_items
    return {**schema, **({"minItems": 1} if bounds.required else {"default": []})}


def bounded_entries(values: Schema, bounds: Bounds) -> Schema:
    schema: Schema = {
        "type": "object",
        "additionalProperties": bounded(values, bounds.each, needed=True),
        "default": {},
    }
    if bounds.HasField("keys"):
        schema["propertyNames"] = bounded({"type": "string"}, bounds.keys, needed=True)
    if bounds.max_items:
        schema["maxProperties"] = bounds.max_items
    return schema


def bounded(schema: Schema, bounds: Bounds, *, needed: bool) -> Schema:
    """A single value. An empty text is one that is unset, where none is needed."""
    if schema.get("format") == "int64" or "example" in schema:
        return _written_number(schema, bounds)
    match schema.get("type"):
        case "string":
            return {**schema, **_of_text(schema, bounds, needed=needed)}
        case "integer" | "number":
            return {**schema, **_of_number(schema, bounds)}
    return schema


def _of_number(schema: Schema, bounds: Bounds) -> Schema:
    whole = schema["type"] == "integer"
    return {
        name: int(value) if whole else value
        for name in ("minimum", "maximum")
        if bounds.HasField(name)
        for value in (getattr(bounds, name),)
    }


def _of_text(schema: Schema, bounds: Bounds, *, needed: bool) -> Schema:
    found: Schema = {}
    if bounds.required and needed:
        found["minLength"] = 1
    if bounds.max_characters:
        found["maxLength"] = bounds.max_characters
    elif bounds.max_bytes:
        # A character has a byte at least; as base64 three bytes are four characters.
        in_base64 = schema.get("format") == "byte"
        found["maxLength"] = -(-bounds.max_bytes // 3) * 4 if in_base64 else bounds.max_bytes
    if bounds.pattern:
        found["pattern"] = f"^({bounds.pattern}){'' if needed else '?'}$"
    return found


def _written_number(schema: Schema, bounds: Bounds) -> Schema:
    """A number that is written as a text: its pattern says the sign and how many digits."""
    if not bounds.HasField("minimum") or bounds.minimum < 0:
        return schema
    pattern: str = schema["pattern"].replace("-?", "")
    if bounds.HasField("maximum"):
        digits = len(number_text(bounds.maximum))
        for most in (DIGITS_MAX, SECONDS_DIGITS_MAX):
            pattern = pattern.replace(f"{{1,{most}}}", f"{{1,{digits}}}")
    return {**schema, "pattern": pattern}


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
    "google.protobuf.FieldMask": {"type": "string", "example": "hard_limit,end_time"},
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Value": {},
}


class MessageSchemas:
    """Collects the schema of every message that is referred to, under its full name."""

    def __init__(self, in_paths: Collection[FieldDescriptor] = ()) -> None:
        """`in_paths` are the fields that no body has to hold, because the path does."""
        self.components: dict[str, Schema] = {}
        self._in_paths = {each.full_name for each in in_paths}

    def wrapped(self, message: Descriptor, name: str) -> Schema:
        return self._single(message.fields_by_name[name])

    def reference(self, message: Descriptor) -> Schema:
        if message.full_name in WELL_KNOWN:
            return WELL_KNOWN[message.full_name]
        if message.full_name not in self.components:
            # Named before it is filled: messages may contain themselves.
            schema: Schema = {"type": "object"}
            self.components[message.full_name] = schema
            schema["properties"] = {each.name: self.field(each) for each in message.fields}
            if needed := [each.name for each in message.fields if self._is_needed(each)]:
                schema["required"] = needed
        return {"$ref": f"#/components/schemas/{message.full_name}"}

    def field(self, field: FieldDescriptor, *, in_path: bool = False) -> Schema:
        """`in_path` says that it is the parameter of a path, which is never empty."""
        message, bounds = field.message_type, bounds_of(field)
        if message is not None and message.GetOptions().map_entry:
            return bounded_entries(self._single(message.fields_by_name["value"]), bounds)
        if field.is_repeated:
            return bounded_list(self._single(field), bounds)
        needed = in_path or self._is_needed(field)
        single = bounded(self._single(field), bounds, needed=needed)
        if field.has_presence or field.enum_type is not None or needed:
            return single
        return {**single, "default": _default(field)}

    def _is_needed(self, field: FieldDescriptor) -> bool:
        return bounds_of(field).required and field.full_name not in self._in_paths

    def _single(self, field: FieldDescriptor) -> Schema:
        if field.message_type is not None:
            return self.reference(field.message_type)
        if field.enum_type is not None:
            # Unspecified values are left out, in requests and in answers.
            values = [each.name for each in field.enum_type.values if each.number]
            return {"type": "string", "enum": values}
        return SCALARS[field.type]


def _default(field: FieldDescriptor) -> Any:
    written_as_text = SCALARS[field.type]["type"] == "string"
    if field.type == F.TYPE_BYTES:
        return ""
    return str(field.default_value) if written_as_text else field.default_value
