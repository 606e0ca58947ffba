import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

Schema = Mapping[str, Any]

# Each costs as much as this many characters, so that the size bounds time and memory, too.
NODE_CHARACTERS = 16
# A chain of references is followed by recursion.
REFERENCES_DEEP_MAX = 100


class SchemaError(ValueError):
    """The schema is not one; the message says where and why."""


class GrammarSize:
    """Counts what a grammar grows to while it is written out, and ends it at a limit.

    A schema of a kilobyte may ask for gigabytes by alternatives of alternatives.
    """

    def __init__(self, characters_max: int) -> None:
        self._characters_max = characters_max
        self.characters = 0

    def add_node(self, *entries: Mapping[str, Any] | list[Any]) -> None:
        self._add(NODE_CHARACTERS + sum(map(len, entries)))

    def add_text(self, text: str) -> None:
        self._add(len(text))

    def add_values(self, values: Any) -> None:
        self._add(len(json.dumps(values)))

    def _add(self, characters: int) -> None:
        self.characters += characters
        if self.characters > self._characters_max:
            raise SchemaError(
                f"its alternatives and references, written out, exceed {self._characters_max} "
                "characters; state fewer alternatives, or nest them less"
            )


def resolve(
    root: Schema, node: Schema, seen: tuple[str, ...], size: GrammarSize
) -> tuple[Schema, tuple[str, ...]]:
    """The node with its `$ref` and `allOf` merged in, and the references followed so far.

    A reference already in `seen` is recursive and left out. Raises SchemaError.
    """
    size.add_node(node)
    while (reference := node.get("$ref")) is not None:
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        if reference in seen:
            return siblings, seen
        seen = (*seen, reference)
        if len(seen) > REFERENCES_DEEP_MAX:
            raise SchemaError(f"more than {REFERENCES_DEEP_MAX} references lead to one another")
        node = _merge(_target(root, reference), siblings, size)
    for part in node.get("allOf", []):
        resolved, seen = resolve(root, part if isinstance(part, Mapping) else {}, seen, size)
        node = _merge(resolved, node, size)
    return {key: value for key, value in node.items() if key != "allOf"}, seen


def _merge(base: Schema, other: Schema, size: GrammarSize) -> Schema:
    lists = [each.get(key, ()) for each in (base, other) for key in ("properties", "required")]
    size.add_node(base, other, *lists)
    merged = {**base, **other}
    if "properties" in base and "properties" in other:
        merged["properties"] = {**base["properties"], **other["properties"]}
    if "required" in base and "required" in other:
        merged["required"] = list(dict.fromkeys([*base["required"], *other["required"]]))
    return merged


def _target(root: Schema, reference: Any) -> Schema:
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise SchemaError(f"$ref {reference!r} is not local; inline what it points to")
    target: Any = root
    for part in reference.lstrip("#").split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and name in map(str, range(len(target))):
            target = target[int(name)]
        elif isinstance(target, Mapping) and name in target:
            target = target[name]
        else:
            raise SchemaError(f"$ref {reference} points to nothing")
    if isinstance(target, bool):
        # The registry takes both; of `false` no grammar can be made, and the adapter says no.
        return {}
    if not isinstance(target, Mapping):
        raise SchemaError(f"$ref {reference} does not point to a schema")
    return target
