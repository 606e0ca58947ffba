"""JSON Schemas of tools: checked once, when a tool is registered (draft 2020-12)."""

import json
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from tool_registry.errors import InvalidSchema

SCHEMA_BYTES_MAX = 64 * 1024
DEPTH_MAX = 32


def check_parameters_schema(text: str) -> None:
    """Checks the schema of a tool's arguments; its root is an object.

    Raises InvalidSchema with the JSON pointer of the fault.
    """
    schema = check_schema(text)
    if schema.get("type") != "object":
        raise InvalidSchema("/type", 'arguments are an object, so say "type": "object"')


def check_schema(text: str) -> dict[str, Any]:
    """The parsed schema. Raises InvalidSchema."""
    if len(text.encode()) > SCHEMA_BYTES_MAX:
        raise InvalidSchema("", f"it is larger than {SCHEMA_BYTES_MAX // 1024} KiB")
    try:
        schema = json.loads(text)
        Draft202012Validator.check_schema(schema)
    except ValueError as error:
        raise InvalidSchema("", f"it is not JSON: {error}") from error
    except SchemaError as error:
        raise InvalidSchema(_pointer(error.absolute_path), error.message) from error
    if not isinstance(schema, dict):
        raise InvalidSchema("", "it is not an object")
    _check_references(schema, schema, "", ())
    return schema


def _check_references(
    root: dict[str, Any], node: Any, path: str, open_references: tuple[str, ...]
) -> None:
    """References stay inside the schema, lead somewhere, and do not lead in circles."""
    if path.count("/") > DEPTH_MAX:
        raise InvalidSchema(path, f"it is nested more than {DEPTH_MAX} deep")
    if isinstance(node, dict) and isinstance(reference := node.get("$ref"), str):
        if reference in open_references:
            raise InvalidSchema(f"{path}/$ref", f"{reference} leads back to itself")
        target = _resolve(root, reference, path)
        _check_references(root, target, path, (*open_references, reference))
    for key, child in _children(node):
        _check_references(root, child, f"{path}/{key}", open_references)


def _resolve(root: dict[str, Any], reference: str, path: str) -> Any:
    if not reference.startswith("#/"):
        raise InvalidSchema(f"{path}/$ref", f"{reference} is outside of this schema")
    node: Any = root
    for part in reference[2:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, dict) or key not in node:
            raise InvalidSchema(f"{path}/$ref", f"{reference} leads nowhere")
        node = node[key]
    return node


def _children(node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        # Definitions are walked where they are used.
        yield from ((key, value) for key, value in node.items() if key != "$defs")
    elif isinstance(node, list):
        yield from ((str(index), value) for index, value in enumerate(node))


def _pointer(parts: Any) -> str:
    return "".join(f"/{part}" for part in parts)
