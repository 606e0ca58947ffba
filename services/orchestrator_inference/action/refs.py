"""Local references and allOf of a JSON Schema, inlined."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

Schema = Mapping[str, Any]


class SchemaError(ValueError):
    """The schema is not one; the message says where and why."""


def resolve(root: Schema, node: Schema, seen: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
    """The node with its `$ref` and `allOf` merged in, and the references followed so far.

    A reference already in `seen` is recursive and left out. Raises SchemaError.
    """
    while (reference := node.get("$ref")) is not None:
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        if reference in seen:
            return siblings, seen
        seen = (*seen, reference)
        node = _merge(_target(root, reference), siblings)
    for part in node.get("allOf", []):
        resolved, seen = resolve(root, part if isinstance(part, Mapping) else {}, seen)
        node = _merge(resolved, node)
    return {key: value for key, value in node.items() if key != "allOf"}, seen


def _merge(base: Schema, other: Schema) -> Schema:
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
