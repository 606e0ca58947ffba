"""Widens the keywords around a loosened part, so that the whole schema becomes wider, too.

A value that the original accepts must stay accepted: `not` of something wider is narrower, and of
a `oneOf` with a wider member several may fit.
"""

from collections.abc import Mapping
from graphlib import TopologicalSorter
from typing import Any

from podium_kit.json_schemas.cycles import DEFINITIONS, references
from podium_kit.json_schemas.walk import DATA_KEYWORDS, LOOSE, MAP_KEYWORDS, Node

# These hold for what other keywords of the object or list do not.
UNSEEN = ("unevaluatedProperties", "unevaluatedItems")


def widened(schema: Any, definitions: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The schema and its definitions without marks. The definitions are in no circle."""
    widening = _Widening(definitions)
    # Each after those that it refers to: a chain of references may be deeper than recursion.
    graph = {name: set(references(part)) for name, part in definitions.items()}
    for name in TopologicalSorter(graph).static_order():
        widening.definition(name)
    root, _ = widening.of(schema)
    return root, {name: widening.definition(name)[0] for name in definitions}


class _Widening:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._done: dict[str, tuple[Any, bool]] = {}

    def definition(self, name: str) -> tuple[Any, bool]:
        if name not in self._done:
            self._done[name] = self.of(self._definitions[name])
        return self._done[name]

    def of(self, schema: Any) -> tuple[Any, bool]:
        if not isinstance(schema, dict):
            return schema, False
        kept: Node = {}
        # A format is an annotation here, and a check elsewhere.
        loose = {"format", LOOSE} & schema.keys()
        for keyword, value in schema.items():
            if keyword != LOOSE:
                kept[keyword], is_loose = self._keyword(keyword, value)
                loose |= {keyword} if is_loose else set()
        if loose:
            _widen(kept, loose)
        return kept, bool(loose)

    def _keyword(self, keyword: str, value: Any) -> tuple[Any, bool]:
        if keyword == "$ref":
            return value, self.definition(value.removeprefix(DEFINITIONS))[1]
        if keyword in DATA_KEYWORDS:
            return value, False
        if keyword in MAP_KEYWORDS:
            parts = {name: self.of(part) for name, part in value.items()}
            loose = any(is_loose for _, is_loose in parts.values())
            return {name: part for name, (part, _) in parts.items()}, loose
        if isinstance(value, list):
            listed = [self.of(part) for part in value]
            return [part for part, _ in listed], any(is_loose for _, is_loose in listed)
        return self.of(value)


def _widen(schema: Node, loose: set[str]) -> None:
    for keyword in UNSEEN:
        schema.pop(keyword, None)
    if "not" in loose:
        del schema["not"]
    if "if" in loose:
        for keyword in ("if", "then", "else"):
            schema.pop(keyword, None)
    if "contains" in loose:
        schema.pop("maxContains", None)
    if "oneOf" in loose:
        members = {"anyOf": schema.pop("oneOf")}
        if "anyOf" in schema:
            schema["allOf"] = [*schema.get("allOf", []), members]
        else:
            schema |= members
