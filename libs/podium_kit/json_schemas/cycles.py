"""Schemas that refer to themselves, written out over so many levels.

A grammar is finite and a check must end, so a reference that leads back to where it began is
followed a few times; what lies deeper may be anything.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from podium_kit.json_schemas.walk import DATA_KEYWORDS, LOOSE, MAP_KEYWORDS, Node

DEFINITIONS = "#/$defs/"
Edge = tuple[str, str]


def references(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for part in schema:
            yield from references(part)
    elif isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(DEFINITIONS)
        for keyword, value in schema.items():
            if keyword in MAP_KEYWORDS:
                for part in value.values():
                    yield from references(part)
            elif keyword not in DATA_KEYWORDS:
                yield from references(value)


def redirected(schema: Any, target: Callable[[str], str | None]) -> Any:
    """The schema with other targets of its references; one without a target may be anything."""
    if isinstance(schema, list):
        return [redirected(part, target) for part in schema]
    if not isinstance(schema, dict):
        return schema
    rest = dict(schema)
    if isinstance(rest.get("$ref"), str):
        to = target(rest.pop("$ref").removeprefix(DEFINITIONS))
        rest = {LOOSE: True, **rest} if to is None else {"$ref": DEFINITIONS + to, **rest}
    for keyword, value in rest.items():
        if keyword in MAP_KEYWORDS:
            rest[keyword] = {name: redirected(part, target) for name, part in value.items()}
        elif keyword not in DATA_KEYWORDS:
            rest[keyword] = redirected(value, target)
    return rest


def unrolled(
    schema: Node, definitions: Mapping[str, Any], levels: int
) -> tuple[Node, dict[str, Any], set[str]]:
    """The schema, its definitions without a circle, and the names of those that were in one.

    A reference to what is not among the definitions may be anything.
    """
    graph = {
        name: {to for to in references(part) if to in definitions}
        for name, part in definitions.items()
    }
    closing = closing_edges(graph)
    written: dict[str, Any] = {}

    def place(name: str, level: int) -> str:
        return name if level == 1 else f"{name}@{level}"

    def target(at: str, level: int) -> Callable[[str], str | None]:
        def to(name: str) -> str | None:
            deeper = level + ((at, name) in closing)
            if name not in definitions or deeper > levels:
                return None
            pending.append((name, deeper))
            return place(name, deeper)

        return to

    pending: list[tuple[str, int]] = []
    root = redirected(schema, target("", 1))
    while pending:
        name, level = pending.pop()
        if place(name, level) not in written:
            written[place(name, level)] = redirected(definitions[name], target(name, level))
    return root, written, {name for _, name in closing}


def closing_edges(graph: Mapping[str, set[str]]) -> set[Edge]:
    closing: set[Edge] = set()
    done: set[str] = set()
    for start, first in graph.items():
        path = {start: iter(sorted(first))} if start not in done else {}
        while path:
            at, further = next(reversed(path.items()))
            to = next(further, None)
            if to is None:
                done.add(at)
                del path[at]
            elif to in path:
                closing.add((at, to))
            elif to not in done:
                path[to] = iter(sorted(graph[to]))
    return closing
