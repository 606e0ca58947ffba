"""Reading an OpenAPI document that a stranger wrote: bounded, nothing fetched.

Only what no operation can do without is required of the document itself; what is wrong with one
operation is that operation's, and is found where the operation is read.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import yaml

from podium_kit.json_yaml import FastSafeLoader, JsonValues
from podium_kit.rpc.errors import InvalidArgument
from podium_kit.text import storable

# A node takes 300 bytes while it is composed.
YAML_NODES_MAX = 1_000_000
# The loader in C takes its stack for each level, and ends the process where that is used up.
YAML_DEPTH_MAX = 1_000
MERGE = "tag:yaml.org,2002:merge"
DOCUMENT_BYTES_MAX = 20 * 1024 * 1024
NODES_MAX = 3_000_000
REFERENCE_HOPS_MAX = 16
PROBLEM_CHARACTERS_MAX = 300
VERSIONS = ("3.0", "3.1")
METHODS = ("get", "put", "post", "delete", "patch", "head")
# Of operations, too, but no tool calls them.
OTHER_METHODS = ("options", "trace")


class InvalidOpenApi(InvalidArgument):
    pass


class Unsupported(Exception):
    """An operation that is valid and that no tool of kind http can call."""


class _JsonLoader(JsonValues, FastSafeLoader):  # type: ignore[misc, valid-type]
    pass


def loaded_yaml(text: str) -> Any:
    """Parses YAML that a stranger wrote as JSON would be. Raises InvalidOpenApi, YAMLError.

    Events come one by one, so a text is measured before anything is made of it: merge keys and
    aliases of aliases can make a few lines as large as memory.
    """
    _require_bounded(text)
    return yaml.load(text, _JsonLoader)  # noqa: S506  it is a SafeLoader


def _require_bounded(text: str) -> None:
    nodes = 0
    size_of: dict[str, int] = {}
    open_nodes: list[tuple[str, int]] = []
    for event in yaml.parse(text, _JsonLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            size_of[anchor] = nodes - before
        elif isinstance(event, yaml.AliasEvent):
            nodes += _size_of_alias(event, size_of)
        elif isinstance(event, yaml.NodeEvent):
            anchor = event.anchor or ""
            if isinstance(event, yaml.CollectionStartEvent):
                open_nodes.append((anchor, nodes))
                _require_shallow(event, len(open_nodes))
            elif isinstance(event, yaml.ScalarEvent):
                _require_no_merge(event)
                size_of[anchor] = 1
            nodes += 1
        if nodes > YAML_NODES_MAX:
            raise InvalidOpenApi(
                f"the YAML holds more than {YAML_NODES_MAX} values, those of an alias counted each"
                " time; leave operations out, or send it as JSON"
            )


def _require_shallow(event: yaml.CollectionStartEvent, depth: int) -> None:
    if depth > YAML_DEPTH_MAX:
        raise InvalidOpenApi(
            f"line {_line(event)}: values are nested more than {YAML_DEPTH_MAX} deep; flatten them"
        )


def _size_of_alias(alias: yaml.AliasEvent, size_of: dict[str, int]) -> int:
    if alias.anchor not in size_of:
        raise InvalidOpenApi(
            f"line {_line(alias)}: the alias *{alias.anchor} names what it is part of, or nothing;"
            " write out what is meant"
        )
    return size_of[alias.anchor]


def _require_no_merge(scalar: yaml.ScalarEvent) -> None:
    if scalar.tag == MERGE or (scalar.value == "<<" and scalar.implicit[0]):
        raise InvalidOpenApi(
            f"line {_line(scalar)}: merge keys (<<) are not read; write out the fields that they"
            " merge, or convert the document to JSON"
        )


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


VARIABLE = re.compile(r"\{([^{}]+)\}")
Node = dict[str, Any]


@dataclass(frozen=True)
class OperationPlace:
    """An operation in the document: its method in upper case, its path, and what is there."""

    method: str
    path: str
    item: Node
    operation: Any

    @property
    def words(self) -> str:
        return f"{self.method} {self.path}".strip()


class OpenApiDocument:
    """An OpenAPI 3.0 or 3.1 document; `url` is where it came from, if known."""

    def __init__(self, root: Node, url: str = "") -> None:
        self.root = root
        self._url = url

    @property
    def title(self) -> str:
        info = self.root.get("info")
        named = info if isinstance(info, dict) else {}
        return f"{named.get('title', '')} {named.get('version', '')}".strip()

    def server_url(self, *owners: Node) -> str:
        """The first server of the first owner that names any; the document is the last.

        Its variables are at their defaults. Raises Unsupported, asking for what is missing.
        """
        named: list[Node] = next((each["servers"] for each in owners if each.get("servers")), [{}])
        try:
            url = _url_of(named[0])
            absolute = urljoin(self._url, url) if self._url else url
            scheme = urlsplit(absolute).scheme
        except (LookupError, TypeError, AttributeError, ValueError) as fault:
            raise Unsupported(
                "its servers are not as OpenAPI writes them; say where the API runs with base_url"
            ) from fault
        if scheme not in ("http", "https"):
            raise Unsupported(
                f"its server is {url!r}, which names no host; "
                f"say where the API runs with base_url, like https://HOST{_path_of(url)}"
            )
        return absolute.rstrip("/")

    def places(self) -> Iterator[OperationPlace]:
        for path, item in self.root["paths"].items():
            if not path.startswith("/"):
                continue  # an extension, like x-amazon
            try:
                resolved = self.resolve(item) if isinstance(item, dict) else None
            except Unsupported:
                resolved = None
            if resolved is None:
                yield OperationPlace("", path, {}, item)
                continue
            for method in (*METHODS, *OTHER_METHODS):
                if method in resolved:
                    yield OperationPlace(method.upper(), path, resolved, resolved[method])

    def resolve(self, node: Node) -> Node:
        """Returns the node that a reference names, or the node itself. Raises Unsupported."""
        for _ in range(REFERENCE_HOPS_MAX):
            if not isinstance(node, dict):
                raise Unsupported("a part of it is no object")
            if not isinstance(node.get("$ref"), str):
                return node
            node = self.target(node["$ref"])
        raise Unsupported(f"a reference is {REFERENCE_HOPS_MAX} references long")

    def target(self, reference: str) -> Any:
        """Returns the target of a reference. Raises Unsupported for other documents, and none."""
        if not reference.startswith("#/"):
            raise Unsupported(f"$ref {reference!r} is not local; bundle the document first")
        target: Any = self.root
        for part in reference.removeprefix("#/").split("/"):
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and name.isdecimal() and int(name) < len(target):
                target = target[int(name)]
            elif isinstance(target, dict) and name in target:
                target = target[name]
            else:
                raise Unsupported(f"$ref {reference!r} names nothing in the document")
        return target


def read_document(text: str, url: str = "") -> OpenApiDocument:
    if (size_bytes := len(text.encode(errors="surrogatepass"))) > DOCUMENT_BYTES_MAX:
        raise InvalidOpenApi(f"{size_bytes} bytes; at most {DOCUMENT_BYTES_MAX}")
    try:
        root = _plain(_loaded(text), iter(range(NODES_MAX)))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        problem = " ".join(str(error).split())[:PROBLEM_CHARACTERS_MAX]
        raise InvalidOpenApi(f"not YAML or JSON: {problem}") from error
    if not isinstance(root, dict):
        raise InvalidOpenApi("the document is not an object")
    version = ".".join(str(root.get("openapi", "")).split(".")[:2])
    if version not in VERSIONS:
        raise InvalidOpenApi(_of_version(root))
    if not isinstance(root.get("paths"), dict):
        raise InvalidOpenApi("at /paths: there is no object of paths, and so no operation")
    return OpenApiDocument(root, url)


def _loaded(text: str) -> Any:
    """JSON is YAML as well, but read as JSON it takes a fiftieth of the time."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            pass  # YAML, whose flow style looks alike
    return loaded_yaml(text)


def _of_version(root: Node) -> str:
    if "swagger" in root:
        return f"it is of Swagger {root['swagger']}; convert it to OpenAPI 3 first"
    if "openapi" not in root:
        return "it has no field openapi, so it is no OpenAPI document; give one of 3.0 or 3.1"
    return f"openapi is {root['openapi']!r}; give a document of 3.0 or 3.1"


def _url_of(server: Node) -> str:
    url, variables = str(server.get("url", "/")), server.get("variables") or {}
    if missing := next((name for name in VARIABLE.findall(url) if name not in variables), None):
        raise Unsupported(f"the server {url} has {{{missing}}}, and no such variable is set")
    return VARIABLE.sub(lambda match: str(variables[match[1]]["default"]), url)


def _path_of(url: str) -> str:
    path = urlsplit(url).path
    return path if path.startswith("/") and path != "/" else ""


def _plain(node: Any, budget: Iterator[int]) -> Any:
    """The node as JSON would hold it: names of fields are text, also `200:`."""
    if next(budget, None) is None:
        raise InvalidOpenApi(f"the document holds more than {NODES_MAX} values")
    if isinstance(node, dict):
        return {storable(str(name)): _plain(value, budget) for name, value in node.items()}
    if isinstance(node, list):
        return [_plain(value, budget) for value in node]
    return storable(node) if isinstance(node, str) else node
