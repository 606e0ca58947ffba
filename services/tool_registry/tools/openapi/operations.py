import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from podium_kit.http_headers import belongs_to_connection
from podium_kit.json_schemas.loosening import LooseSchema
from tool_registry.tools.openapi.arguments import Arguments, OpenApiSchemas
from tool_registry.tools.openapi.bodies import Bodies
from tool_registry.tools.openapi.document import (
    METHODS,
    VARIABLE,
    InvalidOpenApi,
    Node,
    OpenApiDocument,
    OperationPlace,
    Unsupported,
)
from tool_registry.tools.openapi.security import Caller, Credential, credentials_of

NAME_CHARACTERS_MAX = 64
DESCRIPTION_CHARACTERS_MAX = 4000
# Parameters of these names are ignored, says OpenAPI: other parts of it describe them.
IGNORED_HEADERS = {"accept", "content-type", "authorization"}
EFFECTS = {"GET": "pure", "HEAD": "pure", "PUT": "idempotent", "DELETE": "idempotent"}
# Of a schema of many alternatives it is enough to know that it may be anything.
KINDS_LOOKED_AT = 100
# By place, style and explode how arguments are written; "" is by itself.
STYLES = {
    ("query", "form", True): "exploded_object",
    ("query", "form", False): "comma_separated",
    ("query", "spaceDelimited", False): "space_separated",
    ("query", "pipeDelimited", False): "pipe_separated",
    # Not in the table, and understood as repeated names.
    ("query", "spaceDelimited", True): "",
    ("query", "pipeDelimited", True): "",
    ("query", "deepObject", True): "deep_object",
    ("query", "deepObject", False): "deep_object",
    ("cookie", "form", True): "exploded_object",
    ("cookie", "form", False): "comma_separated",
    ("header", "simple", True): "simple_exploded",
    ("header", "simple", False): "comma_separated",
    ("path", "simple", True): "simple_exploded",
    ("path", "simple", False): "comma_separated",
    ("path", "label", True): "label",
    ("path", "label", False): "label_comma",
    ("path", "matrix", True): "matrix",
    ("path", "matrix", False): "matrix_comma",
}
# These write a text, a number or a flag as it is, and some of them a list.
OF_OBJECTS = {"exploded_object"}
OF_LISTS = {"comma_separated", "space_separated", "pipe_separated", "simple_exploded"}


@dataclass(frozen=True)
class Operation:
    """One operation, ready to become a tool.

    `parameters` gives the schema of its arguments. It raises UnusableSchema.
    """

    name: str
    description: str
    method: str
    path: str
    url_template: str
    arguments: Arguments
    parameters: Callable[[], LooseSchema]
    side_effect: str
    tags: tuple[str, ...]
    credentials: tuple[Credential, ...]


@dataclass(frozen=True)
class Skipped:
    operation: str
    reason: str


@dataclass(frozen=True)
class Wanted:
    base_url: str = ""
    name_prefix: str = ""
    operation_ids: frozenset[str] = frozenset()
    operation_tags: frozenset[str] = frozenset()
    caller: Caller = field(default_factory=Caller)


def read_operations(
    document: OpenApiDocument, wanted: Wanted
) -> tuple[list[Operation], list[Skipped]]:
    reader = _Reader(document, wanted)
    operations: dict[str, Operation] = {}
    skipped = []
    for place in document.places():
        try:
            if not _is_wanted(_operation(document, place), wanted):
                continue
            read = reader.operation(place, operations)
            operations[read.name] = read
        except Unsupported as why:
            skipped.append(Skipped(place.words, str(why)))
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as fault:
            # The document is a stranger's: whatever a part of it is, it is this operation's fault.
            skipped.append(Skipped(place.words, f"it is no valid OpenAPI: {_cause(fault)}"))
    return list(operations.values()), skipped


class _Reader:
    def __init__(self, document: OpenApiDocument, wanted: Wanted) -> None:
        self._document = document
        self._wanted = wanted
        self._schemas = OpenApiSchemas(document)
        self._bodies = Bodies(document, self._schemas)
        # One question for the whole document, before hundreds of the same answer.
        self._asked_for_base()

    def operation(self, place: OperationPlace, taken: dict[str, Operation]) -> Operation:
        operation = _operation(self._document, place)
        base_url = self._base_url(place, operation)
        arguments = Arguments()
        for parameter in self._parameters(place.item, operation):
            self._add_parameter(arguments, parameter)
        for name in VARIABLE.findall(place.path):
            if name not in arguments.wired("path"):
                arguments.add(name, {"type": "string"}, "path", required=True)
        if isinstance(operation.get("requestBody"), dict):
            body = self._document.resolve(operation["requestBody"])
            self._bodies.add(arguments, body)
        schema = arguments.schema()
        named = operation.get("operationId") or f"{place.method} {place.path}"
        return Operation(
            name=_free_name(tool_name(self._wanted.name_prefix, str(named)), taken),
            description=_description(operation, place),
            method=place.method,
            path=place.path,
            url_template=base_url + place.path,
            arguments=arguments,
            parameters=partial(
                self._schemas.fitting, schema, arguments.notices, are_arguments=True
            ),
            side_effect=EFFECTS.get(place.method, "effectful"),
            tags=_tags(operation),
            credentials=credentials_of(self._document, operation, self._wanted.caller, base_url),
        )

    def _asked_for_base(self) -> None:
        root = self._document.root
        if self._wanted.base_url:
            return
        try:
            self._document.server_url(root)
        except Unsupported as question:
            if not any(_names_servers(place) for place in self._document.places()):
                raise InvalidOpenApi(str(question)) from question

    def _base_url(self, place: OperationPlace, operation: Node) -> str:
        if self._wanted.base_url:
            return self._wanted.base_url.rstrip("/")
        return self._document.server_url(operation, place.item, self._document.root)

    def _parameters(self, item: Node, operation: Node) -> Sequence[Node]:
        """Returns the path's parameters, replaced by the operation's own of the same name."""
        both = [*(item.get("parameters") or []), *(operation.get("parameters") or [])]
        resolved = [self._document.resolve(parameter) for parameter in both]
        return list({(each["in"], each["name"]): each for each in resolved}.values())

    def _kinds(self, schema: Any) -> set[str]:
        found: set[str] = set()
        pending = [schema]
        for _ in range(KINDS_LOOKED_AT):
            if not pending:
                return found
            node = pending.pop()
            node = self._document.resolve(node) if isinstance(node, dict) else {}
            kinds = node.get("type")
            parts = [part for name in ("allOf", "anyOf", "oneOf") for part in node.get(name) or ()]
            pending += parts
            if kinds is None and ("properties" in node or not (parts or "enum" in node)):
                found.add("object")
            found |= {kinds} if isinstance(kinds, str) else set(kinds or ())
        return found | {"object", "array"}

    def _add_parameter(self, arguments: Arguments, parameter: Node) -> None:
        name, place = str(parameter["name"]), parameter["in"]
        required = parameter.get("required") is True or place == "path"
        ignored = name.lower() in IGNORED_HEADERS or belongs_to_connection(name)
        if place == "header" and ignored:
            return
        described = _described(parameter)
        style = _style(parameter, place, self._kinds(described))
        if described is None or style is None:
            if required:
                raise Unsupported(f"its parameter {name} is sent in a way that is not supported")
            return
        schema = self._schemas.converted(described, arguments.spot(name))
        words = parameter.get("description")
        if isinstance(words, str) and words and isinstance(schema, dict) and "$ref" not in schema:
            schema = {"description": words, **schema}
        arguments.add(name, schema, place, required=required, style=style)


def tool_name(prefix: str, name: str) -> str:
    """`listPets` as `list_pets`: lower-case, with "_" for what a name cannot hold."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    plain = re.sub(r"[^a-z0-9_-]+", "_", f"{prefix}{snake}".lower()).strip("_")
    return (plain if plain[:1].isalpha() else f"call_{plain}")[:NAME_CHARACTERS_MAX]


def _free_name(name: str, taken: dict[str, Operation]) -> str:
    """The name, or with a number: documents repeat operation ids, and long ones are cut alike."""
    free, number = name, 2
    while free in taken:
        ending = f"_{number}"
        free, number = name[: NAME_CHARACTERS_MAX - len(ending)] + ending, number + 1
    return free


def _operation(document: OpenApiDocument, place: OperationPlace) -> Node:
    if not place.method:
        if isinstance(place.operation, dict):
            document.resolve(place.operation)
        raise Unsupported("the path is no object of operations")
    if place.method.lower() not in METHODS:
        raise Unsupported(f"{place.method} is no method that tools call")
    if not isinstance(place.operation, dict):
        raise Unsupported("it is no object")
    return place.operation


def _names_servers(place: OperationPlace) -> bool:
    own = place.operation.get("servers") if isinstance(place.operation, dict) else None
    return bool(own or place.item.get("servers"))


def _is_wanted(operation: Node, wanted: Wanted) -> bool:
    by_id = not wanted.operation_ids or operation.get("operationId") in wanted.operation_ids
    by_tag = not wanted.operation_tags or bool(
        wanted.operation_tags.intersection(operation.get("tags") or [])
    )
    return by_id and by_tag


def _description(operation: Node, place: OperationPlace) -> str:
    parts = [str(operation.get(key) or "").strip() for key in ("summary", "description")]
    text = "\n".join(dict.fromkeys(part for part in parts if part)) or place.words
    return text[:DESCRIPTION_CHARACTERS_MAX]


def _described(parameter: Node) -> Any:
    """Its schema; that of its content, which is then written as JSON; None for neither."""
    if "schema" in parameter:
        return parameter["schema"]
    content = parameter.get("content")
    media = next(iter(content.values()), None) if isinstance(content, dict) else None
    return media.get("schema", {}) if isinstance(media, dict) else None


def _style(parameter: Node, place: str, kinds: set[str]) -> str | None:
    """Returns the style of a value; "" is the default, None is an unknown style."""
    if "content" in parameter and "schema" not in parameter:
        return "json"
    style = parameter.get("style", "form" if place in ("query", "cookie") else "simple")
    explode = parameter.get("explode", style == "form") is True
    written = STYLES.get((place, style, explode))
    needless = (written in OF_OBJECTS and "object" not in kinds) or (
        written in OF_LISTS and not kinds & {"object", "array"}
    )
    return "" if needless else written


def _tags(operation: Node) -> tuple[str, ...]:
    named = [re.sub(r"[^a-z0-9-]+", "-", str(tag).lower()) for tag in operation.get("tags") or []]
    return tuple(dict.fromkeys(tag.strip("-") for tag in named if tag.strip("-")))


def _cause(fault: Exception) -> str:
    if isinstance(fault, KeyError):
        return f"a part of it lacks {fault.args[0]!r}"
    if isinstance(fault, RecursionError):
        return "it is nested too deeply"
    return f"a part of it is of another kind ({str(fault)[:100]})"
