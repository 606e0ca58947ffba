import json
from typing import Any

from podium_kit.json_schemas.checks import checked_object, checked_schema, parsed_schema
from podium_kit.json_schemas.errors import UnusableSchema
from podium_kit.json_schemas.loosening import loosened_object
from tool_registry.errors import InvalidSchema

PARAMETERS = "parameters_json_schema"


def check_parameters_schema(
    text: str, field: str = PARAMETERS, *, is_schema: bool = False
) -> dict[str, Any]:
    """The schema of a tool's arguments: its root is an object. Raises InvalidSchema.

    `is_schema` says that it is known to be JSON Schema, which takes longest to find out.
    """
    try:
        return checked_object(text, is_schema=is_schema)
    except UnusableSchema as error:
        raise InvalidSchema(field, error.path, error.problem) from error


def check_schema(field: str, text: str) -> dict[str, Any]:
    try:
        return checked_schema(text)
    except UnusableSchema as error:
        raise InvalidSchema(field, error.path, error.problem) from error


def loosened_parameters(text: str, field: str) -> str:
    """A stranger's schema of arguments as one that can be enforced. Raises InvalidSchema."""
    try:
        return json.dumps(loosened_object(parsed_schema(text)).schema)
    except UnusableSchema as error:
        raise InvalidSchema(field, error.path, error.problem) from error
