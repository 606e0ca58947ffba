"""JSON Schemas from untrusted authors, to check calls and answers against.

A schema may come from a client, a stranger's OpenAPI document or MCP server, so its size, its
depth and what its references expand to are bounded, and nothing is ever fetched.
"""

import json
from typing import Any, NoReturn

from jsonschema import Draft202012Validator, SchemaError

from podium_kit.json_schemas.errors import UnusableSchema
from podium_kit.json_schemas.grammar import grammar_characters
from podium_kit.json_schemas.inlining import SchemaError as GrammarError
from podium_kit.json_schemas.linear_patterns import PatternBudget, UnsupportedPattern
from podium_kit.json_schemas.references import check_references
from podium_kit.json_schemas.walk import DEPTH_MAX, depth_of, subschemas

SCHEMA_BYTES_MAX = 64 * 1024
PROBLEM_CHARACTERS_MAX = 300


def checked_schema(text: str, *, is_schema: bool = False) -> dict[str, Any]:
    """The parsed schema. Raises UnusableSchema with the JSON path of the fault.

    `is_schema` says that `loosened` returned it: it is known to be JSON Schema with patterns that
    compile, which takes longest to find out.
    """
    schema = parsed_schema(text)
    if not isinstance(schema, dict):
        raise UnusableSchema("$", "a schema must be a JSON object")
    check_references(schema)
    if not is_schema:
        _check_keywords(schema)
        _check_patterns(schema)
    return schema


def checked_object(text: str, *, is_schema: bool = False) -> dict[str, Any]:
    """The schema of arguments or of an answer, which a model can be held to.

    Raises UnusableSchema.
    """
    schema = checked_schema(text, is_schema=is_schema)
    if schema.get("type") != "object":
        raise UnusableSchema("$.type", 'the root must have "type": "object"')
    check_grammar(text)
    return schema


def check_grammar(text: str) -> None:
    try:
        grammar_characters(text)
    except GrammarError as error:
        raise UnusableSchema("$", str(error)) from error


def _check_keywords(schema: dict[str, Any]) -> None:
    # Read as 2020-12, whatever it names: that is how calls are checked.
    schema = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
    from jsonschema_rs import meta

    # A thousand times as fast; what is wrong, and where, the other one says in words.
    try:
        if meta.is_valid(schema):
            return
    except UnicodeEncodeError as error:
        problem = "text holds half of a surrogate pair, which is no character"
        raise UnusableSchema("$", problem) from error
    try:
        Draft202012Validator.check_schema(
            schema, format_checker=Draft202012Validator.FORMAT_CHECKER
        )
    except SchemaError as error:
        problem = error.message[:PROBLEM_CHARACTERS_MAX]
        raise UnusableSchema(error.json_path, problem) from error


def _check_patterns(schema: dict[str, Any]) -> None:
    budget = PatternBudget()
    for path, node in subschemas(schema):
        pattern, of_names = node.get("pattern"), node.get("patternProperties")
        patterns = {f"{path}.pattern": pattern}
        if isinstance(of_names, dict):
            patterns |= {f"{path}.patternProperties": "|".join(of_names)}
        for place, found in patterns.items():
            try:
                if isinstance(found, str):
                    budget.check(found)
            except UnsupportedPattern as error:
                raise UnusableSchema(place, error.message) from error


def parsed_schema(text: str) -> Any:
    """The JSON of a schema that is neither too large nor too deep. Raises UnusableSchema."""
    size_bytes = len(text.encode())
    if size_bytes > SCHEMA_BYTES_MAX:
        raise UnusableSchema("$", f"{size_bytes} bytes; at most {SCHEMA_BYTES_MAX}")
    try:
        schema = json.loads(text, parse_constant=_reject_constant)
        depth = depth_of(schema)
    except RecursionError:
        depth = DEPTH_MAX + 1
    except ValueError as error:
        raise UnusableSchema("$", f"not JSON: {error}") from error
    if depth > DEPTH_MAX:
        raise UnusableSchema("$", f"nested deeper than {DEPTH_MAX} levels")
    return schema


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
