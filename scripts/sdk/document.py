"""The document that clients are generated from: the gateway's, with short names and comments.

Other people's APIs (chat completions, responses, messages) have clients of their own and are left
out.
"""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

from scripts.sdk.comments import comments

from gateway.server import openapi_document

Schema = dict[str, Any]
FOREIGN = re.compile(r"/v1/(chat|embeddings|responses|messages)\b")
REFERENCE = "#/components/schemas/"
CONTRACTS = "podium."
# What the platform checks, and says better than a client's generated model would; a newer platform
# may allow more. Which parameters there are stays.
BOUNDS = frozenset(("minimum", "maximum", "minLength", "maxLength", "pattern", "required")) | {
    "minItems",
    "maxItems",
    "maxProperties",
    "propertyNames",
}
EMPTY: Schema = {"string": "", "array": []}


class NameTaken(ValueError):
    """Two schemas would have the same short name."""


def client_document() -> Schema:
    document = asyncio.run(openapi_document())
    for path in [path for path in document["paths"] if FOREIGN.match(path)]:
        del document["paths"][path]
    schemas = document["components"]["schemas"]
    _unbind(document)
    _describe(schemas, comments())
    kept = _reachable([document["paths"], document["components"]["responses"]], schemas)
    document["components"]["schemas"] = {name: schemas[name] for name in sorted(kept)}
    _rename(document, {name: short_name(name) for name in kept})
    return document


def short_name(name: str) -> str:
    """Episode for podium.episodes.v1.Episode, ApiKey for ApiKeyResource."""
    return name.rpartition(".")[2].removesuffix("Resource")


def _unbind(document: Schema) -> None:
    """Takes the bounds of the contracts away; bodies of the gateway's own keep theirs."""
    schemas = document["components"]["schemas"]
    for name in schemas:
        if name.startswith(CONTRACTS):
            schemas[name] = _without_bounds(schemas[name])
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                if operation["operationId"].endswith("Rest"):
                    parameter["schema"] = _without_bounds(parameter["schema"], needed=True)
                    parameter["required"] = parameter["in"] == "path"


def _without_bounds(schema: Any, *, needed: bool = False) -> Any:
    if not isinstance(schema, dict):
        return schema
    kept = {key: each for key, each in schema.items() if key not in BOUNDS}
    for inner in ("items", "additionalProperties"):
        if inner in kept:
            kept[inner] = _without_bounds(kept[inner])
    if fields := kept.get("properties"):
        missing = schema.get("required", ())
        kept["properties"] = {
            name: _without_bounds(each, needed=name in missing) for name, each in fields.items()
        }
    # What is needed has no default, which a client's models have for every field.
    is_text = not kept.keys() & {"enum", "example"} and kept.get("format") != "date-time"
    if needed and is_text and kept.get("type") in EMPTY:
        number = kept.get("format") == "int64"
        kept.setdefault("default", "0" if number else EMPTY[kept["type"]])
    return kept


def _describe(schemas: Schema, said: dict[str, str]) -> None:
    for name, schema in schemas.items():
        if name in said:
            schema["description"] = said[name]
        for field, of_field in schema.get("properties", {}).items():
            if text := said.get(f"{name}.{field}"):
                # Beside a reference, too: OpenAPI 3.1 allows it.
                schema["properties"][field] = {**of_field, "description": text}


def _reachable(start: Any, schemas: Schema) -> set[str]:
    found: set[str] = set()
    waiting = list(_references(start))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(_references(schemas[name]))
    return found


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        given = value.get("$ref")
        if isinstance(given, str) and given.startswith(REFERENCE):
            yield given.removeprefix(REFERENCE)
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def _rename(document: Schema, names: dict[str, str]) -> None:
    if len(set(names.values())) < len(names):
        taken = sorted(short for short in names.values() if [*names.values()].count(short) > 1)
        raise NameTaken(f"more than one schema would be called {taken[0]}")

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: REFERENCE + names[each.removeprefix(REFERENCE)]
                if key == "$ref" and each.startswith(REFERENCE)
                else renamed(each)
                for key, each in value.items()
            }
        return [renamed(each) for each in value] if isinstance(value, list) else value

    schemas = document["components"]["schemas"]
    document["paths"] = renamed(document["paths"])
    document["components"]["responses"] = renamed(document["components"]["responses"])
    document["components"]["schemas"] = {
        names[name]: renamed(schema) for name, schema in schemas.items()
    }
