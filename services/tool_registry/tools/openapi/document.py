"""Reading an OpenAPI document that a stranger wrote: bounded, validated, nothing fetched."""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from openapi_spec_validator import OpenAPIV30SpecValidator, OpenAPIV31SpecValidator
from referencing.exceptions import Unresolvable

from podium_kit.characters import storable
from tool_registry.tools.openapi.errors import InvalidOpenApi

DOCUMENT_BYTES_MAX = 2 * 1024 * 1024
VARIABLE = re.compile(r"\{(\w+)\}")
# Aliases of YAML can make a short text a large document.
NODES_MAX = 300_000
REFERENCE_HOPS_MAX = 16
PROBLEM_CHARACTERS_MAX = 300
VALIDATORS = {"3.0": OpenAPIV30SpecValidator, "3.1": OpenAPIV31SpecValidator}
METHODS = ("get", "put", "post", "delete", "patch", "head")
Node = dict[str, Any]


class _JsonLoader(yaml.SafeLoader):
    """YAML read as JSON: a date stays the text it is."""


_JsonLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class Document:
    """A valid OpenAPI 3.0 or 3.1 document without references to anywhere else."""

    def __init__(self, root: Node) -> None:
        self.root = root

    @property
    def title(self) -> str:
        info = self.root["info"]
        return f"{info['title']} {info['version']}"

    @property
    def nullable_types(self) -> bool:
        """Whether schemas are those of 3.0, which differ from JSON Schema."""
        return str(self.root["openapi"]).startswith("3.0")

    @property
    def server_url(self) -> str:
        """The first server, its variables at their defaults; empty when none is named."""
        servers = self.root.get("servers") or [{"url": ""}]
        url, variables = servers[0]["url"], servers[0].get("variables", {})
        if missing := next((name for name in VARIABLE.findall(url) if name not in variables), None):
            raise InvalidOpenApi(
                f"servers/0: the url has {{{missing}}}, and no such variable is set"
            )
        return VARIABLE.sub(lambda match: str(variables[match[1]]["default"]), url)

    def operations(self) -> Iterator[tuple[str, str, Node, Node]]:
        """Method, path, path item and operation, in the order of the document."""
        for path, item in self.root.get("paths", {}).items():
            resolved = self.resolve(item)
            for method in METHODS:
                if method in resolved:
                    yield method.upper(), path, resolved, resolved[method]

    def resolve(self, node: Node) -> Node:
        """What a reference names, or the node itself. Raises InvalidOpenApi."""
        for _ in range(REFERENCE_HOPS_MAX):
            if "$ref" not in node:
                return node
            node = self._target(node["$ref"])
        raise InvalidOpenApi(f"a reference is {REFERENCE_HOPS_MAX} references long")

    def _target(self, reference: str) -> Node:
        target: Any = self.root
        for part in reference.removeprefix("#/").split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, dict) or name not in target:
                raise InvalidOpenApi(f"{reference} names nothing in the document")
            target = target[name]
        if not isinstance(target, dict):
            raise InvalidOpenApi(f"{reference} does not name an object")
        return target


def read_document(text: str) -> Document:
    """The document of a YAML or JSON text. Raises InvalidOpenApi, naming the fault's place."""
    if (size_bytes := len(text.encode())) > DOCUMENT_BYTES_MAX:
        raise InvalidOpenApi(f"{size_bytes} bytes; at most {DOCUMENT_BYTES_MAX}")
    try:
        root = _plain(yaml.load(text, _JsonLoader), iter(range(NODES_MAX)))  # noqa: S506  it is a SafeLoader
    except (yaml.YAMLError, RecursionError) as error:
        problem = " ".join(str(error).split())[:PROBLEM_CHARACTERS_MAX]
        raise InvalidOpenApi(f"not YAML or JSON: {problem}") from error
    if not isinstance(root, dict):
        raise InvalidOpenApi("the document is not an object")
    _validate(root)
    return Document(root)


def _validate(root: Node) -> None:
    version = ".".join(str(root.get("openapi", "")).split(".")[:2])
    if version not in VALIDATORS:
        raise InvalidOpenApi(f"openapi is {root.get('openapi')!r}; give a document of 3.0 or 3.1")
    if foreign := next(_foreign_references(root), None):
        # Before the validator, which would fetch them.
        raise InvalidOpenApi(f"$ref {foreign!r} is not local; bundle the document first")
    try:
        error = next(iter(VALIDATORS[version](root).iter_errors()), None)
    except Unresolvable as broken:
        raise InvalidOpenApi(f"a $ref to {broken.ref} names nothing in the document") from broken
    except Exception as stumbled:  # The validator assumes much of what it has yet to validate.
        raise InvalidOpenApi(f"the validator cannot read it: {stumbled!r}"[:300]) from stumbled
    if error is not None:
        place = "/".join(str(part) for part in error.absolute_path)
        raise InvalidOpenApi(f"at /{place}: {str(error.message)[:PROBLEM_CHARACTERS_MAX]}")


def _foreign_references(node: Any) -> Iterator[str]:
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            reference = current.get("$ref")
            if isinstance(reference, str) and not reference.startswith("#/"):
                yield reference
            pending += current.values()
        elif isinstance(current, list):
            pending += current


def _plain(node: Any, budget: Iterator[int]) -> Any:
    """The node as JSON would hold it: names of fields are text, also `200:`."""
    if next(budget, None) is None:
        raise InvalidOpenApi(f"the document holds more than {NODES_MAX} values")
    if isinstance(node, dict):
        return {storable(str(name)): _plain(value, budget) for name, value in node.items()}
    if isinstance(node, list):
        return [_plain(value, budget) for value in node]
    return storable(node) if isinstance(node, str) else node
