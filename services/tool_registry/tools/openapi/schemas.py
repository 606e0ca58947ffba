"""Schemas of OpenAPI as JSON Schema 2020-12, with the definitions they refer to.

OpenAPI 3.1 speaks JSON Schema already; 3.0 says `nullable` and has boolean exclusive
limits. References to `components/schemas` become references to `$defs`.
"""

from typing import Any

from tool_registry.tools.openapi.document import Document, Node
from tool_registry.tools.openapi.errors import Unsupported
from tool_registry.tools.schema_walk import MAP_KEYWORDS

COMPONENTS = "#/components/schemas/"
# Say something about documentation or XML, and nothing about a value.
DROPPED = ("xml", "externalDocs", "discriminator", "example", "nullable")
DATA = ("enum", "const", "default", "examples")


class Schemas:
    """Converts schemas of one document."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def with_definitions(self, schema: Node) -> Node:
        """A converted schema that holds everything it refers to."""
        definitions: dict[str, Node] = {}
        pending = _references(schema)
        while pending:
            name = pending.pop()
            if name not in definitions:
                target = self._document.resolve({"$ref": COMPONENTS + name})
                definitions[name] = self.converted(target)
                pending += _references(definitions[name])
        return {**schema, "$defs": definitions} if definitions else schema

    def converted(self, schema: Any) -> Any:
        """The schema with its parts, as JSON Schema; references stay references."""
        if isinstance(schema, list):
            return [self.converted(part) for part in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            return {"$ref": _definition(schema["$ref"])}
        kept = {
            name: self._part(name, value) for name, value in schema.items() if name not in DROPPED
        }
        return _as_2020(schema, kept) if self._document.nullable_types else kept

    def _part(self, keyword: str, value: Any) -> Any:
        if keyword in DATA:
            return value
        if keyword in MAP_KEYWORDS and isinstance(value, dict):
            return {name: self.converted(part) for name, part in value.items()}
        return self.converted(value)

    def object_of(self, schema: Node) -> tuple[dict[str, Node], list[str]]:
        """Properties and required names of an object schema. Raises Unsupported."""
        schema = self._document.resolve(schema)
        if "oneOf" in schema or "anyOf" in schema:
            raise Unsupported("its body is one of several schemas")
        if schema.get("type", "object") != "object":
            raise Unsupported(f"its body is of type {schema['type']}, not an object")
        properties: dict[str, Node] = {}
        required: list[str] = []
        for part in schema.get("allOf", []):
            inherited, needed = self.object_of(part)
            properties |= inherited
            required += needed
        properties |= schema.get("properties", {})
        resolved = {name: self._document.resolve(part) for name, part in properties.items()}
        read_only = {name for name, part in resolved.items() if part.get("readOnly")}
        written = {name: part for name, part in properties.items() if name not in read_only}
        required += schema.get("required", [])
        return written, [name for name in dict.fromkeys(required) if name not in read_only]


def _as_2020(schema: Node, kept: Node) -> Node:
    for limit, keyword in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        exclusive = kept.get(keyword)
        if isinstance(exclusive, bool):
            del kept[keyword]
            if exclusive and limit in kept:
                kept[keyword] = kept.pop(limit)
    if schema.get("nullable") is True and isinstance(kept.get("type"), str):
        kept["type"] = [kept["type"], "null"]
        if "enum" in kept:
            kept["enum"] = [*kept["enum"], None]
    return kept


def _definition(reference: str) -> str:
    if not reference.startswith(COMPONENTS) or "/" in reference.removeprefix(COMPONENTS):
        raise Unsupported(f"its schema refers to {reference}, which is not in components/schemas")
    return "#/$defs/" + reference.removeprefix(COMPONENTS)


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for part in schema for name in _references(part)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"].removeprefix("#/$defs/")] if isinstance(schema.get("$ref"), str) else []
    return own + [name for part in schema.values() for name in _references(part)]
