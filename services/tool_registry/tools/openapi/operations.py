"""Operations of an OpenAPI document as tools: name, arguments, where each argument goes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tool_registry.tools.openapi.document import Document, Node
from tool_registry.tools.openapi.errors import InvalidOpenApi, Unsupported
from tool_registry.tools.openapi.schemas import Schemas
from tool_registry.tools.openapi.security import Caller, Credential, credential_of

NAME_CHARACTERS_MAX = 64
DESCRIPTION_CHARACTERS_MAX = 4000
JSON = "application/json"
# Parameters of these names are ignored, says OpenAPI: other parts of it describe them.
IGNORED_HEADERS = {"accept", "content-type", "authorization"}
EFFECTS = {"GET": "pure", "HEAD": "pure", "PUT": "idempotent", "DELETE": "idempotent"}


@dataclass(frozen=True)
class Operation:
    """One operation, ready to become a tool. `places` says where arguments go."""

    name: str
    description: str
    method: str
    path: str
    url_template: str
    parameters: Node
    places: dict[str, str]
    side_effect: str
    tags: tuple[str, ...]
    credential: Credential | None


@dataclass(frozen=True)
class Skipped:
    """An operation that cannot become a tool, and why."""

    operation: str
    reason: str


@dataclass(frozen=True)
class Wanted:
    """Which operations to read, and how; empty sets keep all."""

    base_url: str = ""
    name_prefix: str = ""
    operation_ids: frozenset[str] = frozenset()
    operation_tags: frozenset[str] = frozenset()
    caller: Caller = field(default_factory=Caller)


@dataclass
class _Arguments:
    properties: dict[str, Node] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, schema: Node, place: str, required: bool) -> None:
        if name in self.properties:
            raise Unsupported(f"{name} is both in the {self.places[name]} and in the {place}")
        self.properties[name] = schema
        self.places[name] = place
        if required:
            self.required.append(name)

    def schema(self) -> Node:
        return {"type": "object", "properties": self.properties, "required": self.required}


def read_operations(document: Document, wanted: Wanted) -> tuple[list[Operation], list[Skipped]]:
    """The wanted operations, and those that cannot be called. Raises InvalidOpenApi."""
    base_url = _base_url(document, wanted.base_url)
    reader = _Reader(document, wanted, base_url)
    operations: dict[str, Operation] = {}
    skipped = []
    for method, path, item, operation in document.operations():
        if not _is_wanted(operation, wanted):
            continue
        try:
            read = reader.operation(method, path, item, operation)
            if read.name in operations:
                raise Unsupported(f"an earlier operation is called {read.name} as well")
            operations[read.name] = read
        except Unsupported as why:
            skipped.append(Skipped(f"{method} {path}", str(why)))
    return list(operations.values()), skipped


class _Reader:
    def __init__(self, document: Document, wanted: Wanted, base_url: str) -> None:
        self._document = document
        self._wanted = wanted
        self._base_url = base_url
        self._schemas = Schemas(document)

    def operation(self, method: str, path: str, item: Node, operation: Node) -> Operation:
        arguments = _Arguments()
        for parameter in self._parameters(item, operation):
            self._add_parameter(arguments, parameter)
        if "requestBody" in operation:
            self._add_body(arguments, self._document.resolve(operation["requestBody"]))
        name = operation.get("operationId") or f"{method} {path}"
        return Operation(
            name=tool_name(self._wanted.name_prefix, name),
            description=_description(operation, method, path),
            method=method,
            path=path,
            url_template=self._base_url + path,
            parameters=self._schemas.with_definitions(arguments.schema()),
            places=arguments.places,
            side_effect=EFFECTS.get(method, "effectful"),
            tags=tuple(_tag(tag) for tag in operation.get("tags", [])),
            credential=credential_of(
                self._document, operation, self._wanted.caller, self._base_url
            ),
        )

    def _parameters(self, item: Node, operation: Node) -> Sequence[Node]:
        """Those of the path, with the operation's own in place of the same ones."""
        both = [*item.get("parameters", []), *operation.get("parameters", [])]
        resolved = [self._document.resolve(parameter) for parameter in both]
        return list({(each["in"], each["name"]): each for each in resolved}.values())

    def _add_parameter(self, arguments: _Arguments, parameter: Node) -> None:
        name, place = parameter["name"], parameter["in"]
        required = bool(parameter.get("required")) or place == "path"
        if place == "header" and name.lower() in IGNORED_HEADERS:
            return
        if place == "cookie" or "schema" not in parameter or _style_is_strange(parameter):
            if required:
                raise Unsupported(f"its parameter {name} is sent in a way that is not supported")
            return
        schema = self._schemas.converted(parameter["schema"])
        if "description" in parameter and "$ref" not in schema:
            schema = {"description": parameter["description"], **schema}
        arguments.add(name, schema, place, required)

    def _add_body(self, arguments: _Arguments, body: Node) -> None:
        media = next((each for name, each in body["content"].items() if _is_json(name)), None)
        if media is None:
            if body.get("required"):
                raise Unsupported(f"its body is {', '.join(body['content'])}, not JSON")
            return
        properties, required = self._schemas.object_of(media.get("schema", {}))
        for name, schema in properties.items():
            needed = bool(body.get("required")) and name in required
            arguments.add(name, self._schemas.converted(schema), "body", needed)


def tool_name(prefix: str, name: str) -> str:
    """`listPets` as `list_pets`: lower-case, with "_" for what a name cannot hold."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    plain = re.sub(r"[^a-z0-9_-]+", "_", f"{prefix}{snake}".lower()).strip("_")
    return (plain if plain[:1].isalpha() else f"call_{plain}")[:NAME_CHARACTERS_MAX]


def _base_url(document: Document, given: str) -> str:
    url = given or document.server_url
    if urlsplit(url).scheme not in ("http", "https"):
        raise InvalidOpenApi(f"the document's server is {url!r}; give base_url")
    return url.rstrip("/")


def _is_wanted(operation: Node, wanted: Wanted) -> bool:
    by_id = not wanted.operation_ids or operation.get("operationId") in wanted.operation_ids
    by_tag = not wanted.operation_tags or bool(
        wanted.operation_tags.intersection(operation.get("tags", []))
    )
    return by_id and by_tag


def _description(operation: Node, method: str, path: str) -> str:
    parts = [str(operation.get(key, "")).strip() for key in ("summary", "description")]
    text = "\n".join(dict.fromkeys(part for part in parts if part)) or f"{method} {path}"
    return text[:DESCRIPTION_CHARACTERS_MAX]


def _style_is_strange(parameter: Node) -> bool:
    """Whether a value is written otherwise than as text or, for a list, as repeated names."""
    default = {"query": "form", "path": "simple", "header": "simple"}.get(parameter["in"])
    explode = parameter.get("explode", parameter["in"] == "query")
    style = parameter.get("style", default)
    return style != default or (parameter["in"] == "query" and not explode)


def _is_json(media_type: str) -> bool:
    plain = media_type.split(";", maxsplit=1)[0].strip().lower()
    return plain == JSON or (plain.startswith("application/") and plain.endswith("+json"))


def _tag(tag: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", tag.lower()).strip("-")
