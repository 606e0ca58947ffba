"""JSON Schemas (2020-12) from untrusted authors, to check calls against.

A schema may come from a stranger's OpenAPI document or MCP server, so its size, its
depth and what its references expand to are bounded, and nothing is ever fetched.
"""

import json
from typing import Any, NoReturn

from jsonschema import Draft202012Validator, SchemaError
from jsonschema_rs import meta

from podium_kit.linear_patterns import UnsupportedPattern, compiled
from tool_registry.errors import InvalidSchema
from tool_registry.tools.schema_references import check_references
from tool_registry.tools.schema_walk import DEPTH_MAX, depth_of, subschemas

SCHEMA_BYTES_MAX = 64 * 1024
PROBLEM_CHARACTERS_MAX = 300
DIALECTS = (None, Draft202012Validator.META_SCHEMA["$id"])
PARAMETERS = "parameters_json_schema"


def check_parameters_schema(
    text: str, field: str = PARAMETERS, *, is_schema: bool = False
) -> dict[str, Any]:
    """The schema of a tool's arguments: its root is an object. Raises InvalidSchema.

    `is_schema` says that it is known to be JSON Schema, which takes longest to find out.
    """
    schema = check_schema(field, text, is_schema=is_schema)
    if schema.get("type") != "object":
        raise InvalidSchema(field, "$.type", 'the root must have "type": "object"')
    return schema


def check_schema(field: str, text: str, *, is_schema: bool = False) -> dict[str, Any]:
    """The parsed schema. Raises InvalidSchema with the JSON path of the fault."""
    schema = _parse(field, text)
    if not isinstance(schema, dict):
        raise InvalidSchema(field, "$", "a schema must be a JSON object")
    if schema.get("$schema") not in DIALECTS:
        raise InvalidSchema(field, "$.$schema", f"only {DIALECTS[1]} is spoken here")
    if not is_schema:
        _check_keywords(field, schema)
    check_references(field, schema)
    _check_patterns(field, schema)
    return schema


def _check_keywords(field: str, schema: dict[str, Any]) -> None:
    # A thousand times as fast; what is wrong, and where, the other one says in words.
    try:
        if meta.is_valid(schema):
            return
    except UnicodeEncodeError as error:
        problem = "text holds half of a surrogate pair, which is no character"
        raise InvalidSchema(field, "$", problem) from error
    try:
        Draft202012Validator.check_schema(
            schema, format_checker=Draft202012Validator.FORMAT_CHECKER
        )
    except SchemaError as error:
        problem = error.message[:PROBLEM_CHARACTERS_MAX]
        raise InvalidSchema(field, error.json_path, problem) from error


def _check_patterns(field: str, schema: dict[str, Any]) -> None:
    """Raises InvalidSchema for one that takes more than linear time."""
    for path, node in subschemas(schema):
        pattern, of_names = node.get("pattern"), node.get("patternProperties")
        patterns = {f"{path}.pattern": pattern}
        if isinstance(of_names, dict):
            patterns |= {f"{path}.patternProperties": "|".join(of_names)}
        for place, found in patterns.items():
            try:
                if isinstance(found, str):
                    compiled(found)
            except UnsupportedPattern as error:
                raise InvalidSchema(field, place, error.message) from error


def _parse(field: str, text: str) -> Any:
    size_bytes = len(text.encode())
    if size_bytes > SCHEMA_BYTES_MAX:
        raise InvalidSchema(field, "$", f"{size_bytes} bytes; at most {SCHEMA_BYTES_MAX}")
    try:
        schema = json.loads(text, parse_constant=_reject_constant)
        depth = depth_of(schema)
    except RecursionError:
        depth = DEPTH_MAX + 1
    except ValueError as error:
        raise InvalidSchema(field, "$", f"not JSON: {error}") from error
    if depth > DEPTH_MAX:
        raise InvalidSchema(field, "$", f"nested deeper than {DEPTH_MAX} levels")
    return schema


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
