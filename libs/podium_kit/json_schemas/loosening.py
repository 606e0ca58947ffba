"""Schemas of strangers as JSON Schema 2020-12, with a notice for what is left to their server.

Servers and documents write draft-04 to 2020-12, patterns of other engines, references in circles
and keywords of their own. What cannot be kept is left out: the schema becomes wider, and the
tool's server still checks the call.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from podium_kit.json_schemas.checks import check_grammar, checked_schema
from podium_kit.json_schemas.cycles import DEFINITIONS, references, unrolled
from podium_kit.json_schemas.documents import SchemaDocument, UnknownTarget
from podium_kit.json_schemas.errors import UnusableSchema
from podium_kit.json_schemas.keywords import LISTS, MAPS, PARTS, PLAIN, SILENT, NotKept, pattern
from podium_kit.json_schemas.linear_patterns import PatternBudget
from podium_kit.json_schemas.walk import (
    DATA_KEYWORDS,
    DEPTH_MAX,
    LOOSE,
    MAP_KEYWORDS,
    Node,
    depth_of,
    has_more_values,
)
from podium_kit.json_schemas.widening import widened

# Of JSON, in one schema; reading more takes seconds, and nothing of it fits a prompt.
VALUES_MAX = 20_000
NOTICES_MAX = 20
NOTICE_CHARACTERS_MAX = 300
COMPONENTS = "#/components/schemas/"
EXTENSIONS_AND_REFERENCES = ("x-", "$ref", "$dynamicRef", "$recursiveRef")


@dataclass(frozen=True)
class _Size:
    """Limits of what is kept of a schema: references followed, levels of a recursive one,
    characters of a description, and levels at all."""

    hops: int | None = None
    rounds: int = 1
    words: int | None = None
    depth: int = DEPTH_MAX


# Less and less, until the schema is small enough.
SIZES = (
    _Size(rounds=3),
    _Size(),
    *(_Size(words=words) for words in (1000, 300)),
    *(_Size(hops, words=300) for hops in (4, 3, 2, 1, 0)),
    *(_Size(0, words=100, depth=depth) for depth in (8, 4, 3, 2, 1, 0, -1)),
)


DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class Notice:
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path} {self.problem}"[:NOTICE_CHARACTERS_MAX]


@dataclass(frozen=True)
class LooseSchema:
    """A schema that can be enforced, and what of the original is not in it."""

    schema: Node
    loosened: tuple[Notice, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        once = list(dict.fromkeys(map(str, self.loosened)))
        more = [f"and {len(once) - NOTICES_MAX + 1} more"] if len(once) > NOTICES_MAX else []
        return tuple(once[: NOTICES_MAX - len(more)] + more)


@dataclass(frozen=True)
class Spot:
    path: str = "$"
    notices: list[Notice] = field(default_factory=list)

    def below(self, part: str) -> "Spot":
        # A name may be nearly the whole document, and every place below it names it again.
        return Spot((self.path + part)[:NOTICE_CHARACTERS_MAX], self.notices)

    def leave(self, why: str) -> None:
        self.notices.append(Notice(self.path, f"is left to the tool's server: {why}"))


def loosened(schema: Any) -> LooseSchema:
    """The schema by itself, with its definitions. Raises UnusableSchema for what is none."""
    schemas, converted, notices = _read(schema)
    return schemas.fitting(converted, notices)


def loosened_object(schema: Any) -> LooseSchema:
    """The same for arguments, which are an object whether the schema says so or not."""
    schemas, converted, notices = _read(schema)
    kinds = converted.get("type", "object")
    if "object" not in ([kinds] if isinstance(kinds, str) else kinds):
        raise UnusableSchema("$.type", f"the root must be an object, and this is {kinds}")
    return schemas.fitting({**converted, "type": "object"}, notices, are_arguments=True)


def _read(schema: Any) -> tuple["LooseSchemas", Node, list[Notice]]:
    if not isinstance(schema, dict):
        raise UnusableSchema("$", "a schema must be a JSON object")
    spot = Spot()
    if has_more_values(schema, VALUES_MAX):
        spot.leave(f"more than {VALUES_MAX:,} values")
        schema = {}
    if depth_of(schema) > DEPTH_MAX:
        raise UnusableSchema("$", f"nested deeper than {DEPTH_MAX} levels")
    schemas = LooseSchemas(SchemaDocument(schema).target)
    converted = schemas.converted(schema, spot)
    if "$schema" in schema:
        # Whichever draft it was written in.
        converted = {"$schema": DIALECT, **converted}
    return schemas, converted, spot.notices


class LooseSchemas:
    """Converts schemas of one document, each definition once.

    `target` gives what a reference names. It raises UnknownTarget for what may be anything.
    """

    def __init__(self, target: Callable[[str], Any]) -> None:
        self._target = target
        self._names: dict[str, str] = {}
        self._pointers: dict[str, str] = {}
        self._definitions: dict[str, tuple[Any, list[Notice]]] = {}
        self._patterns = PatternBudget()

    def converted(self, schema: Any, spot: Spot) -> Any:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            spot.leave("no schema")
            return {LOOSE: True}
        kept: Node = self._reference(schema, spot)
        modern = _modern(schema)
        if self._hides_names(modern):
            # What a pattern that is left out allows is not additional.
            modern.pop("additionalProperties", None)
            kept[LOOSE] = True
        for keyword, value in modern.items():
            try:
                part = self._kept(keyword, value, spot.below(f".{keyword}"))
            except NotKept as why:
                spot.below(f".{keyword}").leave(str(why))
                kept[LOOSE] = True
            else:
                kept |= {} if part is None else {keyword: part}
        return kept

    def fitting(
        self, schema: Any, notices: list[Notice], *, are_arguments: bool = False
    ) -> LooseSchema:
        """A converted schema with as much of what it refers to as a tool may have.

        Arguments are sampled under a grammar as well. Raises UnusableSchema.
        """

        def attempt(size: _Size) -> UnusableSchema | LooseSchema:
            found, further = self._cut(schema, size)
            try:
                checked_schema(text := json.dumps(found), is_schema=True)
                if are_arguments:
                    check_grammar(text)
            except UnusableSchema as error:
                return error
            return LooseSchema(found, tuple(dict.fromkeys([*notices, *further])))

        whole = attempt(SIZES[0])
        if isinstance(whole, LooseSchema):
            return whole
        largest, low, high = None, 1, len(SIZES)
        while low < high:
            middle = (low + high) // 2
            if isinstance(found := attempt(SIZES[middle]), LooseSchema):
                largest, high = found, middle
            else:
                low = middle + 1
        if largest is None:
            raise whole
        cut = Notice("$", f"is cut, for it is too large: {whole.problem}")
        return replace(largest, loosened=(*largest.loosened, cut))

    def _cut(self, schema: Node, size: _Size) -> tuple[Node, list[Notice]]:
        near = self._near(schema, size.hops)
        root, definitions, circles = unrolled(schema, near, size.rounds)
        notices = [notice for name in near for notice in self._definitions[name][1]]
        notices += [
            Notice(
                f"$.$defs.{name}",
                f"refers to itself: what lies deeper than {size.rounds} of it is left to the tool's"
                " server",
            )
            for name in sorted(circles)
        ]
        if size.words is not None or size.depth < DEPTH_MAX:
            root = _shallow(root, size)
            definitions = {name: _shallow(part, size) for name, part in definitions.items()}
        root, definitions = widened(root, definitions)
        return {**root, "$defs": definitions} if definitions else root, notices

    def _near(self, schema: Node, hops: int | None) -> dict[str, Any]:
        near: dict[str, Any] = {}
        level, found = 1, list(references(schema))
        while found and (hops is None or level <= hops):
            new = [name for name in dict.fromkeys(found) if name not in near]
            near |= {name: self._definition(name) for name in new}
            found = [further for name in new for further in references(near[name])]
            level += 1
        return near

    def _definition(self, name: str) -> Any:
        if name not in self._definitions:
            spot = Spot(f"$.$defs.{name}")
            converted = self.converted(self._target(self._pointers[name]), spot)
            self._definitions[name] = converted, spot.notices
        return self._definitions[name][0]

    def _reference(self, schema: Node, spot: Spot) -> Node:
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            pointer = schema.get(keyword)
            if isinstance(pointer, str):
                try:
                    self._target(pointer)
                except UnknownTarget as why:
                    spot.below(f".{keyword}").leave(str(why))
                    return {LOOSE: True}
                return {"$ref": DEFINITIONS + self._name(pointer)}
        return {}

    def _name(self, pointer: str) -> str:
        if pointer not in self._names:
            local = re.sub(r"^#/(\$defs|definitions|components/schemas)/", "", pointer)
            plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", local).strip("_") or "root"
            name, number = plain, 2
            while name in self._pointers:
                name, number = f"{plain}_{number}", number + 1
            self._names[pointer], self._pointers[name] = name, pointer
        return self._names[pointer]

    def _kept(self, keyword: str, value: Any, spot: Spot) -> Any:
        if keyword in PLAIN:
            return PLAIN[keyword](value)
        if keyword == "pattern":
            return pattern(value, self._patterns)
        if keyword in PARTS:
            return self._part(value, spot)
        if keyword in LISTS:
            if not isinstance(value, list) or not value:
                raise NotKept("no list of schemas")
            return [self.converted(part, spot.below(f"[{at}]")) for at, part in enumerate(value)]
        if keyword in MAPS:
            return self._map(keyword, value, spot)
        # In YAML a name may be a number.
        if keyword in SILENT or str(keyword).startswith(EXTENSIONS_AND_REFERENCES):
            return None
        raise NotKept("no keyword of JSON Schema")

    def _part(self, value: Any, spot: Spot) -> Any:
        if isinstance(value, dict | bool):
            return self.converted(value, spot)
        raise NotKept("no schema")

    def _map(self, keyword: str, value: Any, spot: Spot) -> Any:
        if not isinstance(value, dict):
            raise NotKept("no object of schemas")
        kept: Node = {}
        for name, part in value.items():
            place = spot.below(f".{name}")
            try:
                if keyword == "patternProperties":
                    pattern(name, self._patterns)
                kept[name] = self._part(part, place)
            except NotKept as why:
                place.leave(str(why))
                kept |= {name: {LOOSE: True}} if keyword == "properties" else {}
        if keyword == "patternProperties" and kept:
            pattern("|".join(kept), self._patterns)
        return kept

    def _hides_names(self, schema: Node) -> bool:
        patterns = schema.get("patternProperties")
        try:
            for name in [*patterns, "|".join(patterns)] if patterns else ():
                pattern(name, self._patterns)
        except (NotKept, TypeError):
            return True
        return False


def _modern(schema: Node) -> Node:
    """The keywords of older drafts and of OpenAPI 3.0 by those that mean the same."""
    modern = dict(schema)
    for limit, keyword in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(modern.get(keyword), bool) and modern.pop(keyword) and limit in modern:
            modern[keyword] = modern.pop(limit)
    places = modern.get("items")
    if isinstance(places, list):
        del modern["items"]
        modern |= {"prefixItems": places} if places else {}
        modern |= {"items": modern["additionalItems"]} if "additionalItems" in modern else {}
    # Without a list of items it means nothing.
    modern.pop("additionalItems", None)
    dependencies = modern.pop("dependencies", None)
    if isinstance(dependencies, dict):
        listed = {name: part for name, part in dependencies.items() if isinstance(part, list)}
        schemas = {name: part for name, part in dependencies.items() if name not in listed}
        modern |= {"dependentRequired": listed} if listed else {}
        modern |= {"dependentSchemas": schemas} if schemas else {}
    if modern.get("nullable") is True and isinstance(modern.get("type"), str):
        modern["type"] = [modern["type"], "null"]
        if isinstance(modern.get("enum"), list) and None not in modern["enum"]:
            modern["enum"] = [*modern["enum"], None]
    return modern


def _shallow(schema: Any, size: _Size, depth: int = 0) -> Any:
    """The schema without what is nested deeper, and with the beginning of long descriptions."""
    if isinstance(schema, list):
        return [_shallow(part, size, depth) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if depth > size.depth:
        kind = {keyword: schema[keyword] for keyword in ("type",) if keyword in schema}
        return {LOOSE: True, **kind}
    kept: Node = {}
    for keyword, value in schema.items():
        if keyword == "description":
            kept[keyword] = value[: size.words]
        elif keyword in MAP_KEYWORDS:
            kept[keyword] = {name: _shallow(part, size, depth + 1) for name, part in value.items()}
        else:
            data = keyword in DATA_KEYWORDS
            kept[keyword] = value if data else _shallow(value, size, depth + 1)
    return kept
