from typing import Any

from podium_kit.rpc.bounds import Bounds, number_text

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
