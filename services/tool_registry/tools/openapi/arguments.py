import re
from dataclasses import dataclass, field

from podium_kit.json_schemas.loosening import Notice, Spot
from tool_registry.tools.openapi.document import Node

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
