"""Schemas of OpenAPI documents as JSON Schema 2020-12, with the definitions they refer to.

A document in the wild says things that are no JSON Schema, in 3.0 on purpose (`nullable`, boolean
exclusive limits) and elsewhere by mistake (`type: any`, `required: true`). A keyword whose value
is none is left out, so that the schema becomes wider and the call is still checked by the API.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from podium_kit.json_schemas.walk import DATA_KEYWORDS, MAP_KEYWORDS
from podium_kit.linear_patterns import UnsupportedPattern, compiled
from tool_registry.tools.openapi.document import Document, Node
from tool_registry.tools.openapi.errors import Unsupported

DEFINITIONS = "#/$defs/"
COMPONENTS = "#/components/schemas/"
TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
# What older kinds of OpenAPI and people's habits write.
TYPE_WORDS = {"file": "string", "int": "integer", "float": "number", "bool": "boolean"}
TYPE_WORDS |= {"dict": "object", "list": "array", "str": "string", "double": "number"}


class Schemas:
    """Converts schemas of one document, each definition once."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._names: dict[str, str] = {}
        self._pointers: dict[str, str] = {}
        self._definitions: dict[str, Any] = {}

    def converted(self, schema: Any) -> Any:
        """The schema with its parts, as JSON Schema; references stay references."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            return {}
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema)
        kept: Node = {}
        for keyword, value in schema.items():
            check = CHECKS.get(keyword)
            converted = check(self, value) if check else None
            if converted is not None:
                kept[keyword] = converted
        return _repaired(schema, kept)

    def with_definitions(self, schema: Node, hops: int | None = None) -> Node:
        """A converted schema that holds everything it refers to, over at most so many references.

        What lies further, and what refers to what it is part of, may be anything: an
        orchestrator's grammar is finite.
        """
        levels = self._levels(schema, hops)
        cycles = _closing({name: self._referred(name) & levels.keys() for name in levels})

        def kept_of(name: str) -> Any:
            return _without(
                self._definition(name), lambda to: to in levels and (name, to) not in cycles
            )

        definitions = {name: kept_of(name) for name in levels}
        kept: Node = _without(schema, levels.__contains__)
        return {**kept, "$defs": definitions} if definitions else kept

    def object_of(self, schema: Any, seen: tuple[int, ...] = ()) -> tuple[Node, list[str]] | None:
        """Properties and required names of a schema of one object; None for any other schema."""
        schema = self._document.resolve(schema)
        if id(schema) in seen or "oneOf" in schema or "anyOf" in schema:
            return None
        if schema.get("type", "object") not in ("object", ["object"], ["object", "null"]):
            return None
        properties: Node = {}
        required: list[str] = []
        for part in schema.get("allOf") or []:
            inherited = self.object_of(part, (*seen, id(schema)))
            if inherited is None:
                return None
            properties |= inherited[0]
            required += inherited[1]
        own = schema.get("properties")
        properties |= own if isinstance(own, dict) else {}
        read_only = {name for name, part in properties.items() if self._is_read_only(part)}
        listed = schema.get("required")
        required += (
            [name for name in listed if name in properties] if isinstance(listed, list) else []
        )
        written = {name: part for name, part in properties.items() if name not in read_only}
        return written, [name for name in dict.fromkeys(required) if name not in read_only]

    def _is_read_only(self, part: Any) -> bool:
        try:
            return isinstance(part, dict) and self._document.resolve(part).get("readOnly") is True
        except Unsupported:
            return False

    def _reference(self, schema: Node) -> Node:
        pointer = schema["$ref"]
        self._document.target(pointer)
        words = _text(schema.get("description"))
        return {
            "$ref": DEFINITIONS + self._name(pointer),
            **({"description": words} if words else {}),
        }

    def _name(self, pointer: str) -> str:
        """What a definition is called: as in the document where a JSON pointer can say it."""
        if pointer not in self._names:
            plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", pointer.removeprefix(COMPONENTS).strip("#/"))
            name, number = plain, 2
            while name in self._pointers:
                name, number = f"{plain}_{number}", number + 1
            self._names[pointer], self._pointers[name] = name, pointer
        return self._names[pointer]

    def _definition(self, name: str) -> Any:
        if name not in self._definitions:
            self._definitions[name] = self.converted(self._document.target(self._pointers[name]))
        return self._definitions[name]

    def _referred(self, name: str) -> set[str]:
        return set(_references(self._definition(name)))

    def _levels(self, schema: Node, hops: int | None) -> dict[str, int]:
        """Definitions by how many references away they are."""
        levels: dict[str, int] = {}
        level, found = 1, list(_references(schema))
        while found and (hops is None or level <= hops):
            new = [name for name in dict.fromkeys(found) if name not in levels]
            levels |= dict.fromkeys(new, level)
            found = [further for name in new for further in _references(self._definition(name))]
            level += 1
        return levels


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for part in schema:
            yield from _references(part)
    elif isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(DEFINITIONS)
        for keyword, value in schema.items():
            if keyword in MAP_KEYWORDS:
                for part in value.values():
                    yield from _references(part)
            elif keyword not in DATA_KEYWORDS:
                yield from _references(value)


def _without(schema: Any, keeps: Callable[[str], bool]) -> Any:
    """The schema in which a reference that is not kept may be anything."""
    if isinstance(schema, list):
        return [_without(part, keeps) for part in schema]
    if not isinstance(schema, dict):
        return schema
    rest = dict(schema)
    if isinstance(rest.get("$ref"), str) and not keeps(rest["$ref"].removeprefix(DEFINITIONS)):
        del rest["$ref"]
    for keyword, value in rest.items():
        if keyword in MAP_KEYWORDS:
            rest[keyword] = {name: _without(part, keeps) for name, part in value.items()}
        elif keyword not in DATA_KEYWORDS:
            rest[keyword] = _without(value, keeps)
    return rest


def _closing(graph: dict[str, set[str]]) -> set[tuple[str, str]]:
    """The references without which none leads back to where it began."""
    closing: set[tuple[str, str]] = set()
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


def _repaired(schema: Node, kept: Node) -> Node:
    """The exclusive limits and `nullable` of 3.0, and lists of items of older drafts."""
    for limit, keyword in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(keyword) is True and limit in kept:
            kept[keyword] = kept.pop(limit)
    if isinstance(schema.get("items"), list) and "prefixItems" not in kept:
        places = kept.pop("items", None)
        kept |= {"prefixItems": places} if places else {}
    if schema.get("nullable") is True and isinstance(kept.get("type"), str):
        kept["type"] = [kept["type"], "null"]
        if "enum" in kept and None not in kept["enum"]:
            kept["enum"] = [*kept["enum"], None]
    return kept


# Each gives what is kept of a keyword's value, None for nothing.


def _number(value: Any) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _type(value: Any) -> Any:
    words = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    known = [TYPE_WORDS.get(word, word) for word in words if isinstance(word, str)]
    types = list(dict.fromkeys(word for word in known if word in TYPES))
    if not types or len(types) < len(words):
        return None  # a word that nobody knows may mean anything
    return types[0] if isinstance(value, str) else types


def _pattern(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        compiled(value)
        # The schema of schemas asks Python, too, whether it is one.
        re.compile(value)
    except (UnsupportedPattern, re.error, RecursionError, OverflowError):
        return None
    return value


def _names(value: Any) -> list[str] | None:
    if not isinstance(value, list):
        return None
    return list(dict.fromkeys(name for name in value if isinstance(name, str)))


def _dependent(value: Any) -> Node | None:
    listed = (
        {name: _names(names) for name, names in value.items()} if isinstance(value, dict) else {}
    )
    return {name: names for name, names in listed.items() if names is not None} or None


def _schema(schemas: Schemas, value: Any) -> Any:
    return schemas.converted(value) if isinstance(value, dict | bool) else None


def _items(schemas: Schemas, value: Any) -> Any:
    return _list(schemas, value) if isinstance(value, list) else _schema(schemas, value)


def _list(schemas: Schemas, value: Any) -> Any:
    parts = value if isinstance(value, list) else []
    return [schemas.converted(part) for part in parts if isinstance(part, dict | bool)] or None


def _map(schemas: Schemas, value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    return {
        name: schemas.converted(part)
        for name, part in value.items()
        if isinstance(part, dict | bool)
    }


def _pattern_map(schemas: Schemas, value: Any) -> Any:
    found = _map(schemas, value) or {}
    return {name: part for name, part in found.items() if _pattern(name) is not None} or None


def _plain(check: Callable[[Any], Any]) -> Callable[[Schemas, Any], Any]:
    return lambda _, value: check(value)


NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
FLAGS = ("uniqueItems", "deprecated", "readOnly", "writeOnly")
TEXTS = ("title", "description", "format", "contentEncoding", "contentMediaType")
PARTS = ("additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
CHECKS: dict[str, Callable[[Schemas, Any], Any]] = {
    "type": _plain(_type),
    "required": _plain(_names),
    "pattern": _plain(_pattern),
    "enum": _plain(lambda value: value if isinstance(value, list) and value else None),
    "examples": _plain(lambda value: value if isinstance(value, list) else None),
    "const": _plain(lambda value: value),
    "default": _plain(lambda value: value),
    "multipleOf": _plain(lambda value: _number(value) if (_number(value) or 0) > 0 else None),
    "dependentRequired": _plain(_dependent),
    "items": _items,
    "properties": _map,
    "dependentSchemas": _map,
    "patternProperties": _pattern_map,
    **dict.fromkeys(NUMBERS, _plain(_number)),
    **dict.fromkeys(COUNTS, _plain(_count)),
    **dict.fromkeys(FLAGS, _plain(_flag)),
    **dict.fromkeys(TEXTS, _plain(_text)),
    **dict.fromkeys(PARTS, _schema),
    **dict.fromkeys(LISTS, _list),
}
