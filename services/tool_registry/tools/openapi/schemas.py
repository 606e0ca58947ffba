"""Schemas of OpenAPI documents as JSON Schema 2020-12, with the definitions they refer to.

A document in the wild says things that are no JSON Schema, in 3.0 on purpose (`nullable`, boolean
exclusive limits) and elsewhere by mistake (`type: any`, `required: true`).
"""

from typing import Any

from podium_kit.json_schemas.loosening import LooseSchemas, Spot
from tool_registry.tools.openapi.document import Node, OpenApiDocument
from tool_registry.tools.openapi.errors import Unsupported


class OpenApiSchemas(LooseSchemas):
    def __init__(self, document: OpenApiDocument) -> None:
        super().__init__(document.target)
        self._document = document

    def converted(self, schema: Any, spot: Spot) -> Any:
        """The schema with its parts, as JSON Schema; references stay references."""
        if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
            # In 3.0 nothing else beside a reference counts.
            schema = {name: schema[name] for name in ("$ref", "description") if name in schema}
        return super().converted(schema, spot)

    def object_of(self, schema: Any, seen: tuple[int, ...] = ()) -> tuple[Node, list[str]] | None:
        """Properties and required names of a schema of one object; None for any other schema."""
        schema = self._document.resolve(schema)
        if id(schema) in seen or "oneOf" in schema or "anyOf" in schema:
            return None
        if schema.get("type", "object") not in ("object", ["object"], ["object", "null"]):
            return None
        properties: Node = {}
        required: list[str] = []
        for part in schema.get("allOf") or []:
            inherited = self.object_of(part, (*seen, id(schema)))
            if inherited is None:
                return None
            properties |= inherited[0]
            required += inherited[1]
        own = schema.get("properties")
        properties |= own if isinstance(own, dict) else {}
        read_only = {name for name, part in properties.items() if self._is_read_only(part)}
        listed = schema.get("required")
        required += (
            [name for name in listed if name in properties] if isinstance(listed, list) else []
        )
        written = {name: part for name, part in properties.items() if name not in read_only}
        return written, [name for name in dict.fromkeys(required) if name not in read_only]

    def _is_read_only(self, part: Any) -> bool:
        try:
            return isinstance(part, dict) and self._document.resolve(part).get("readOnly") is True
        except Unsupported:
            return False
