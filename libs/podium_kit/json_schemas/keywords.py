"""The keywords of JSON Schema 2020-12, and what is kept of the value of each.

A schema in the wild has values that are none: `type: any`, `required: true`, a pattern of another
engine. A keyword with such a value is left out, so that the schema becomes wider.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from podium_kit.json_schemas.linear_patterns import PatternBudget, UnsupportedPattern

TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
# What older kinds of OpenAPI and people's habits write.
TYPE_WORDS = {"file": "string", "int": "integer", "float": "number", "bool": "boolean"}
TYPE_WORDS |= {"dict": "object", "list": "array", "str": "string", "double": "number"}
# Of JSON Schema 2020-12 and older drafts, and of the registry of OpenAPI.
_FORMATS_WORDS = (
    "date date-time time duration email idn-email hostname idn-hostname ipv4 ipv6 uri uri- "
    "reference iri iri-reference uuid uri-template json-pointer relative-json-pointer regex "
    "color int8 int16 int32 int64 uint8 uint16 uint32 uint64 float double decimal decimal128 "
    "double-int password byte binary base64url char commonmark html http-date media-range sf- "
    "binary sf-boolean sf-decimal sf-integer sf-string sf-token style"
)
FORMATS = frozenset(_FORMATS_WORDS.split())


class NotKept(ValueError):
    """The value means nothing here; says why."""


def json_value(value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        # Parsers read 1e999 as infinite.
        raise NotKept("no value of JSON") from error
    return value


def number(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return json_value(value)
    raise NotKept("no number")


def count(value: Any) -> int:
    # Some generators write 1.0.
    if number(value) >= 0 and value == int(value):
        return int(value)
    raise NotKept("no count")


def positive(value: Any) -> Any:
    if number(value) > 0:
        return value
    raise NotKept("not positive")


def flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise NotKept("neither true nor false")


def text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise NotKept("no text")


def format_name(value: Any) -> str:
    if text(value) in FORMATS:
        return str(value)
    raise NotKept(f"no format of JSON Schema: {value[:40]!r}")


def types(value: Any) -> Any:
    words = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    known = [TYPE_WORDS.get(word, word) for word in words if isinstance(word, str)]
    found = list(dict.fromkeys(word for word in known if word in TYPES))
    if not found or len(found) < len(dict.fromkeys(known)):
        # A word that is no type may mean anything.
        raise NotKept("no type of JSON Schema")
    return found[0] if isinstance(value, str) else found


def pattern(value: Any, budget: PatternBudget) -> str:
    try:
        budget.check(text(value))
        # The schema of schemas asks Python, too, whether it is one.
        re.compile(value)
    except UnsupportedPattern as error:
        raise NotKept(error.message) from error
    except (re.error, RecursionError, OverflowError) as error:
        raise NotKept(f"no regular expression: {error}"[:100]) from error
    return str(value)


def names(value: Any) -> list[str]:
    if isinstance(value, list):
        return list(dict.fromkeys(name for name in value if isinstance(name, str)))
    raise NotKept("no list of names")


def lists_of_names(value: Any) -> dict[str, list[str]]:
    if not isinstance(value, dict):
        raise NotKept("no object")
    return {name: names(listed) for name, listed in value.items() if isinstance(listed, list)}


def values(value: Any) -> Any:
    if isinstance(value, list) and value:
        return json_value(value)
    raise NotKept("no list of values")


Keep = Callable[[Any], Any]
# What holds no schemas.
PLAIN: dict[str, Keep] = {
    "type": types,
    "required": names,
    "format": format_name,
    "enum": values,
    "examples": values,
    "const": json_value,
    "default": json_value,
    "multipleOf": positive,
    "dependentRequired": lists_of_names,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), count),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), count),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), flag),
    **dict.fromkeys(("title", "description", "contentEncoding", "contentMediaType"), text),
}
# Each holds a schema, a list of schemas, or schemas by name.
_PARTS_WORDS = (
    "additionalProperties unevaluatedProperties unevaluatedItems not contains propertyNames if "
    "then else items contentSchema"
)
PARTS = frozenset(_PARTS_WORDS.split())
LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
# These say nothing about values. Definitions are reached by what refers to them.
_SILENT_WORDS = (
    "$schema $id id $anchor $dynamicAnchor $recursiveAnchor $vocabulary $comment $defs "
    "definitions example xml externalDocs discriminator nullable"
)
SILENT = frozenset(_SILENT_WORDS.split())
