from collections.abc import Iterator
from typing import Any

DEPTH_MAX = 64
# Values of these are data, even when they look like schemas.
DATA_KEYWORDS = frozenset({"const", "enum", "default", "examples"})
# Values of these are maps whose keys are names, even when a name looks like a keyword.
MAP_KEYWORDS = frozenset(
    {"properties", "patternProperties", "$defs", "dependentSchemas", "definitions", "dependencies"}
)
# Marks a schema that accepts more than its original, until `widening` has seen it.
LOOSE = "$loose"

Node = dict[str, Any]


def depth_of(value: Any) -> int:
    """Levels of nesting; 1 for a scalar. Without recursion, so any document is safe."""
    depth, level = 0, [value]
    while level and depth <= DEPTH_MAX:
        depth += 1
        level = [child for node in level for child in _children(node)]
    return depth


def has_more_values(value: Any, most: int) -> bool:
    """True when the document has more values than that, of which no more are read."""
    left, seen = [value], 0
    while left and seen <= most:
        children = _children(left.pop())
        seen += len(children)
        left += children
    return seen > most


def subschemas(schema: Any, path: str = "$") -> Iterator[tuple[str, Node]]:
    """Every object schema in a schema, itself first, with its JSON path."""
    if isinstance(schema, list):
        for index, part in enumerate(schema):
            yield from subschemas(part, f"{path}[{index}]")
    if not isinstance(schema, dict):
        return
    yield path, schema
    for keyword, value in schema.items():
        below = f"{path}.{keyword}"
        if keyword in MAP_KEYWORDS and isinstance(value, dict):
            for name, part in value.items():
                yield from subschemas(part, f"{below}.{name}")
        elif keyword not in DATA_KEYWORDS:
            yield from subschemas(value, below)


def _children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return list(node.values())
    return node if isinstance(node, list) else []
