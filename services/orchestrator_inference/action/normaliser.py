"""A tool's JSON Schema, reduced to what grammar compilers support.

The result accepts nothing the compiler would ignore: local references are inlined,
keywords outside type, properties, required, enum, const, items, prefixItems, anyOf,
format and the bounds are dropped, objects are closed. What is dropped still counts:
the adapter validates the call against the tool's own schema.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator_inference.action.limits import ITEMS_MAX, SchemaLimits
from orchestrator_inference.action.refs import Schema, SchemaError, resolve

NESTING_MAX = 8
# More items or characters that are wanted at least are the adapter's to count: a grammar of a
# billion places is none.
LEAST_MAX = 256
NUMBER_MAX = 10**15
SCALARS = ("string", "number", "boolean", "null")
# Only formats whose text is short by nature: with a format, xgrammar rejects a length.
FORMATS = frozenset({"date", "time", "date-time", "uuid"})
HINTS = {
    "properties": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "minLength": "string",
    "maxLength": "string",
    "pattern": "string",
    "format": "string",
    "minimum": "number",
    "maximum": "number",
}


def normalise(schema: Schema, limits: SchemaLimits) -> Schema:
    """The reduced schema of a tool's arguments. Raises SchemaError."""
    return _Normaliser(schema, limits).arguments()


class _Normaliser:
    def __init__(self, root: Schema, limits: SchemaLimits) -> None:
        self._root = root
        self._limits = limits

    def arguments(self) -> Schema:
        node, seen = resolve(self._root, self._root, ())
        if _kinds(node) not in (["object"], list(SCALARS)):
            raise SchemaError("the root must be of type object")
        if "properties" not in node and ("anyOf" in node or "oneOf" in node):
            return self._node({**node, "type": "object"}, seen)
        # A tool without parameters takes an empty object, not any object.
        return self._object({"additionalProperties": False, **node}, seen)

    def _node(self, node: Any, seen: tuple[str, ...]) -> Schema:
        if not isinstance(node, Mapping) or len(seen) > NESTING_MAX or node.get("$ref") in seen:
            return {"anyOf": [self._typed({"type": kind}, seen) for kind in SCALARS]}
        node, seen = resolve(self._root, node, seen)
        if "const" in node:
            return {"const": node["const"]}
        if node.get("enum"):
            return {"enum": list(node["enum"])}
        variants = node.get("anyOf") or node.get("oneOf")
        if variants and "properties" not in node:
            shared = {key: value for key, value in node.items() if key not in ("anyOf", "oneOf")}
            return self._any_of(variants, shared, seen)
        return self._typed(node, seen)

    def _any_of(self, variants: Iterable[Any], shared: Schema, seen: tuple[str, ...]) -> Schema:
        merged = [{**shared, **_keywords(variant)} for variant in variants if variant is not False]
        parts = [self._node(variant, (*seen, "")) for variant in merged or [{}]]
        return {"anyOf": parts} if len(parts) > 1 else parts[0]

    def _typed(self, node: Schema, seen: tuple[str, ...]) -> Schema:
        kinds = _kinds(node)
        if len(kinds) > 1:
            return self._any_of([{"type": kind} for kind in kinds], node, seen)
        match kinds[0]:
            case "object":
                return self._object(node, (*seen, ""))
            case "array":
                return self._array(node, (*seen, ""))
            case "string":
                return self._string(node)
            case "number" | "integer":
                return self._number(node, kinds[0])
            case kind:
                return {"type": kind}

    def _object(self, node: Schema, seen: tuple[str, ...]) -> Schema:
        required = list(dict.fromkeys(node.get("required", [])))
        properties = {**node.get("properties", {}), **_undeclared(required, node)}
        if not properties and node.get("additionalProperties", True) is not False:
            values = self._node(node.get("additionalProperties"), seen)
            return {"type": "object", "additionalProperties": values, "maxProperties": ITEMS_MAX}
        return {
            "type": "object",
            "properties": {name: self._node(part, seen) for name, part in properties.items()},
            "required": required,
            "additionalProperties": False,
        }

    def _array(self, node: Schema, seen: tuple[str, ...]) -> Schema:
        if places := node.get("prefixItems"):
            parts = [self._node(place, seen) for place in places]
            return {
                "type": "array",
                "items": {"anyOf": parts},
                "minItems": len(parts),
                "maxItems": len(parts),
            }
        low = min(_size(node.get("minItems")) or 0, LEAST_MAX)
        declared = _size(node.get("maxItems"))
        high = max(low, ITEMS_MAX if declared is None else min(declared, ITEMS_MAX))
        return {
            "type": "array",
            "items": self._node(node.get("items"), seen),
            "minItems": low,
            "maxItems": high,
        }

    def _string(self, node: Schema) -> Schema:
        if node.get("format") in FORMATS:
            return {"type": "string", "format": node["format"]}
        limit = self._limits.string_chars_max
        if limit is None:
            return {"type": "string"}
        low = min(_size(node.get("minLength")) or 0, LEAST_MAX)
        declared = _size(node.get("maxLength"))
        high = max(low, limit if declared is None else min(declared, limit))
        return {"type": "string", **({"minLength": low} if low else {}), "maxLength": high}

    def _number(self, node: Schema, kind: str) -> Schema:
        low, high = _lower(node, kind), _upper(node, kind)
        if low is not None and high is not None and low > high:
            low = high = None
        if self._limits.string_chars_max is not None:
            # Without bounds a model may write digits until its tokens are used up.
            low = -NUMBER_MAX if low is None else low
            high = NUMBER_MAX if high is None else high
        bounds = {"minimum": low, "maximum": high}
        return {"type": kind, **{key: value for key, value in bounds.items() if value is not None}}


def _kinds(node: Schema) -> list[str]:
    declared = node.get("type")
    if declared is None:
        hints = dict.fromkeys(kind for key, kind in HINTS.items() if key in node)
        return list(hints) or list(SCALARS)
    kinds = [declared] if isinstance(declared, str) else list(declared)
    # OpenAPI 3.0 writes a type that may be null this way.
    return [*kinds, "null"] if node.get("nullable") is True and "null" not in kinds else kinds


def _keywords(schema: Any) -> Schema:
    """The schema `true` is the one without keywords."""
    return schema if isinstance(schema, Mapping) else {}


def _undeclared(required: list[str], node: Schema) -> dict[str, Any]:
    return {name: {} for name in required if name not in node.get("properties", {})}


def _size(value: Any) -> int | None:
    return int(value) if _is_number(value) and value >= 0 else None


def _lower(node: Schema, kind: str) -> float | int | None:
    low = _bound(node.get("minimum"), kind, math.ceil)
    above = _bound(node.get("exclusiveMinimum"), kind, lambda value: math.floor(value) + 1)
    return max((bound for bound in (low, above) if bound is not None), default=None)


def _upper(node: Schema, kind: str) -> float | int | None:
    high = _bound(node.get("maximum"), kind, math.floor)
    below = _bound(node.get("exclusiveMaximum"), kind, lambda value: math.ceil(value) - 1)
    return min((bound for bound in (high, below) if bound is not None), default=None)


def _bound(value: Any, kind: str, whole: Any) -> float | int | None:
    if not _is_number(value) or abs(value) > NUMBER_MAX:
        return None
    return int(whole(value)) if kind == "integer" else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
