"""A JSON Schema of arguments or an answer, reduced to what grammar compilers support.

The result accepts nothing the compiler would ignore: local references are inlined,
keywords outside type, properties, required, enum, const, items, prefixItems, anyOf,
format and the bounds are dropped, objects are closed. What is dropped still counts:
the adapter validates the call against the tool's own schema. Size, and with it time and memory,
is bounded after everything is written out, because a kilobyte may ask for gigabytes.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from podium_kit.json_schemas.inlining import GrammarSize, Schema, SchemaError, resolve

ITEMS_MAX = 16
CHARACTERS_MAX = 256 * 1024
# All tools of an episode and its answer together.
ACTION_CHARACTERS_MAX = 1024 * 1024
SIZES_KEPT = 4096

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
READ = HINTS.keys() | {
    *("type", "required", "enum", "const", "anyOf", "oneOf", "nullable"),
    *("minItems", "maxItems", "exclusiveMinimum", "exclusiveMaximum"),
}


@dataclass(frozen=True)
class SchemaLimits:
    """Characters per string; None leaves strings and numbers unbounded."""

    string_chars_max: int | None = None


def normalise(schema: Schema, limits: SchemaLimits, size: GrammarSize | None = None) -> Schema:
    """The reduced schema of a tool's arguments or of an answer. Raises SchemaError.

    `size` is shared by schemas that have one limit together; without it CHARACTERS_MAX holds.
    """
    return _Normaliser(schema, limits, size or GrammarSize(CHARACTERS_MAX)).arguments()


@lru_cache(SIZES_KEPT)
def grammar_characters(text: str) -> int:
    """Size of a schema's grammar once it is written out. Raises SchemaError for a larger one."""
    size = GrammarSize(CHARACTERS_MAX)
    normalise(json.loads(text), SchemaLimits(), size)
    return size.characters


class _Normaliser:
    def __init__(self, root: Schema, limits: SchemaLimits, size: GrammarSize) -> None:
        self._root = root
        self._limits = limits
        self._size = size

    def arguments(self) -> Schema:
        node, seen = self._resolved(self._root, ())
        if _kinds(node) not in (["object"], list(SCALARS)):
            raise SchemaError("the root must be of type object")
        if "properties" not in node and ("anyOf" in node or "oneOf" in node):
            return self._node({**node, "type": "object"}, seen)
        # A tool without parameters takes an empty object, not any object.
        return self._object({"additionalProperties": False, **node}, seen)

    def _resolved(self, node: Schema, seen: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """Drops the keywords that play no part, which alternatives would copy each time."""
        node, seen = resolve(self._root, node, seen, self._size)
        return {key: value for key, value in node.items() if key in READ}, seen

    def _node(self, node: Any, seen: tuple[str, ...]) -> Schema:
        if not isinstance(node, Mapping) or len(seen) > NESTING_MAX or node.get("$ref") in seen:
            return {"anyOf": [self._typed({"type": kind}, seen) for kind in SCALARS]}
        node, seen = self._resolved(node, seen)
        if "const" in node:
            self._size.add_values(node["const"])
            return {"const": node["const"]}
        if node.get("enum"):
            self._size.add_values(node["enum"])
            return {"enum": list(node["enum"])}
        variants = node.get("anyOf") or node.get("oneOf")
        if variants and "properties" not in node:
            shared = {key: value for key, value in node.items() if key not in ("anyOf", "oneOf")}
            return self._any_of(variants, shared, seen)
        return self._typed(node, seen)

    def _any_of(self, variants: Iterable[Any], shared: Schema, seen: tuple[str, ...]) -> Schema:
        possible = [_keywords(variant) for variant in variants if variant is not False]
        parts = []
        for variant in possible or [{}]:
            self._size.add_node(shared, variant)
            parts.append(self._node({**shared, **variant}, (*seen, "")))
        return self._union(parts)

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
        self._size.add_values([*properties, *required])
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
                "items": self._union(parts),
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

    def _union(self, parts: Iterable[Schema]) -> Schema:
        """One of several. Equal alternatives are one, and so are all strings, and all arrays:
        compilers take minutes for a hundred that begin alike."""
        kept: dict[str, Schema] = {}
        for part in (each for one in parts for each in one.get("anyOf", [one])):
            kind = part.get("type", "")
            wide = kind == "array" or (kind == "string" and "format" not in part)
            key = kind if wide else json.dumps(part)
            self._size.add_text(key)
            kept[key] = self._widest(kept[key], part) if wide and key in kept else part
        alternatives = list(kept.values())
        return {"anyOf": alternatives} if len(alternatives) > 1 else alternatives[0]

    def _widest(self, one: Schema, other: Schema) -> Schema:
        wide = {"type": one["type"]}
        if "items" in one:
            wide["items"] = self._union([one["items"], other["items"]])
        for bounds, widest in ((("minItems", "minLength"), min), (("maxItems", "maxLength"), max)):
            shared = [key for key in bounds if key in one and key in other]
            wide |= {key: widest(one[key], other[key]) for key in shared}
        return wide


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
