import re
from dataclasses import dataclass, field
from typing import Any

from podium_kit.json_schemas.loosening import LooseSchemas, Notice, Spot
from tool_registry.tools.openapi.document import Node, OpenApiDocument, Unsupported


class OpenApiSchemas(LooseSchemas):
    """Schemas of one document as JSON Schema 2020-12, each definition converted once.

    A document in the wild says things that are no JSON Schema, in 3.0 on purpose (`nullable`,
    boolean exclusive limits) and elsewhere by mistake (`type: any`, `required: true`).
    """

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


# What providers of models take for the name of an argument.
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass
class Arguments:
    """Arguments by name. `wire_names` and `styles` say what is sent where that is another thing.

    `whole_body` names the argument that is the whole body; `body_encoding` how a body is written.
    `notices` name what of the schemas is left to the API.
    """

    properties: dict[str, Node] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    wire_names: dict[str, str] = field(default_factory=dict)
    styles: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    whole_body: str = ""
    body_encoding: str = ""
    notices: list[Notice] = field(default_factory=list)

    def add(
        self, wire_name: str, schema: Node, place: str, *, required: bool, style: str = ""
    ) -> str:
        """Its name: that on the wire, unless another place has it or no model may use it."""
        name = self._free_name(wire_name, place)
        self.properties[name] = schema
        self.places[name] = place
        if name != wire_name:
            self.wire_names[name] = wire_name
        if style:
            self.styles[name] = style
        if required:
            self.required.append(name)
        return name

    def wired(self, place: str) -> set[str]:
        return {self.wire_names.get(name, name) for name, at in self.places.items() if at == place}

    def spot(self, name: str) -> Spot:
        return Spot(f"$.properties.{name}", self.notices)

    def schema(self) -> Node:
        return {"type": "object", "properties": self.properties, "required": self.required}

    def _free_name(self, wire_name: str, place: str) -> str:
        plain = wire_name
        if not NAME.fullmatch(plain):
            plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", wire_name).strip("_")[:50] or place
        if plain not in self.properties:
            return plain
        plain = f"{place}_{plain}"[:60]
        number = 2
        name = plain
        while name in self.properties:
            name, number = f"{plain}_{number}", number + 1
        return name
