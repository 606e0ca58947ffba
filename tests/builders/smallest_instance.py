"""The smallest value of a JSON Schema of the kind action grammars use."""

from collections.abc import Mapping
from typing import Any

FORMATTED = {
    "date": "2024-01-31",
    "time": "12:00:00Z",
    "date-time": "2024-01-31T12:00:00Z",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def smallest_instance(schema: Mapping[str, Any]) -> Any:
    """The first variant, required properties only, shortest strings and arrays."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return smallest_instance(schema["anyOf"][0])
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            required = schema.get("required", ())
            return {name: smallest_instance(properties[name]) for name in required}
        case "array":
            return [smallest_instance(schema["items"])] * schema.get("minItems", 0)
        case "string":
            return FORMATTED.get(schema.get("format", ""), "x" * schema.get("minLength", 1))
        case "integer" | "number":
            return max(schema.get("minimum", 0), min(0, schema.get("maximum", 0)))
        case "boolean":
            return False
        case _:
            return None
