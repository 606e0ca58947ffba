"""References of a JSON Schema: local, resolvable, never recursive, never a bomb.

An orchestrator's grammar is finite, so recursive values cannot be asked for; and
references that each name the next one twice double the schema at every step.
"""

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from podium_kit.json_schemas.documents import ROOT, UnknownTarget, pointed
from podium_kit.json_schemas.errors import UnusableSchema
from podium_kit.json_schemas.walk import Node, subschemas

EXPANDED_NODES_MAX = 10_000
# Of all that is referred to, each by itself: what encloses another counts again.
WALKED_NODES_MAX = 100_000
# Keywords that mean another thing in an older one are found by the schema of schemas.
DIALECTS = (
    {None, "http://json-schema.org/schema"}
    | {f"https://json-schema.org/draft/{year}/schema" for year in ("2019-09", "2020-12")}
    | {f"http://json-schema.org/draft-0{number}/schema" for number in (4, 6, 7)}
)
REJECTED_KEYWORDS = ("$dynamicRef", "$recursiveRef")


def check_references(root: Node) -> None:
    targets: dict[str, Any] = {ROOT: root}
    pending = [ROOT]
    graph: dict[str, list[str]] = {}
    own: dict[str, int] = {}
    walked = 0
    while pending:
        pointer = pending.pop()
        nodes = list(subschemas(targets[pointer]))
        own[pointer] = len(nodes)
        walked += len(nodes)
        if walked > WALKED_NODES_MAX:
            raise UnusableSchema(
                _path_of(pointer), f"its references name more than {WALKED_NODES_MAX} schemas"
            )
        found = list(_references(nodes, root))
        graph[pointer] = [reference for _, reference, _ in found]
        for path, reference, target in found:
            if reference not in targets:
                targets[reference] = target
                pending.append(reference)
            if target is root:
                raise UnusableSchema(path, f"$ref {reference} is recursive; write its levels out")
    _check_expansion(graph, own)


def _references(nodes: Iterable[tuple[str, Node]], root: Node) -> Iterator[tuple[str, str, Any]]:
    for path, node in nodes:
        for keyword in REJECTED_KEYWORDS:
            if keyword in node:
                raise UnusableSchema(f"{path}.{keyword}", "use $ref with a JSON pointer")
        if _dialect(node) not in DIALECTS:
            raise UnusableSchema(
                f"{path}.$schema", "no draft of JSON Schema that is known; use 2020-12"
            )
        if "$id" in node and node is not root:
            raise UnusableSchema(f"{path}.$id", "only the root may have an $id")
        if "$ref" in node:
            reference = node["$ref"]
            yield f"{path}.$ref", reference, _target(f"{path}.$ref", reference, root)


def _target(path: str, reference: Any, root: Node) -> Any:
    if not isinstance(reference, str):
        raise UnusableSchema(path, "a reference must be a string")
    if reference != ROOT and not reference.startswith("#/"):
        raise UnusableSchema(path, f"{reference!r} is not local; inline what it names")
    try:
        return pointed(root, reference.removeprefix(ROOT), reference)
    except UnknownTarget as error:
        raise UnusableSchema(path, str(error)) from error


def _dialect(node: Node) -> Any:
    """The draft that a schema names; with http, https or an empty fragment it is the same."""
    name = node.get("$schema")
    if not isinstance(name, str):
        return name
    name = name.removesuffix(ROOT).replace("http://", "https://")
    return name if "/draft/" in name else name.replace("https://", "http://")


def _check_expansion(graph: Mapping[str, list[str]], own: Mapping[str, int]) -> None:
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        cycle = " -> ".join(error.args[1])
        raise UnusableSchema(
            _path_of(error.args[1][0]), f"recursive: {cycle}; write its levels out"
        ) from error
    size: dict[str, int] = {}
    for pointer in order:
        size[pointer] = own[pointer] + sum(size[reference] for reference in graph[pointer])
        if size[pointer] > EXPANDED_NODES_MAX:
            raise UnusableSchema(
                _path_of(pointer), f"expands to more than {EXPANDED_NODES_MAX} schemas"
            )


def _path_of(pointer: str) -> str:
    return pointer.replace("#", "$", 1).replace("/", ".")
