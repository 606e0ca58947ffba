import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from orchestrator_inference.action.schema import parsed_schema
from orchestrator_inference.errors import InvalidToolSchema
from orchestrator_inference.models import PromptTool
from podium_kit.json_schemas.grammar import SchemaLimits, normalise
from podium_kit.json_schemas.inlining import SchemaError

# Hundreds of tools are measured one by one where not all fit.
LINES_KEPT = 10_000


def list_tools(tools: Sequence[PromptTool], description_chars_max: int) -> str:
    """Lines like `- convert(value: number, unit: "km"|"mi") [$0.01, 1 s]: Converts lengths.`

    Prose is cut; names, arguments and terms never are.
    """
    return "\n".join(_line(tool, description_chars_max) for tool in tools)


@lru_cache(LINES_KEPT)
def _line(tool: PromptTool, description_chars_max: int) -> str:
    try:
        signature = _signature(tool.parameters_json_schema)
    except SchemaError as error:
        raise InvalidToolSchema(tool.name, str(error)) from error
    notes = f" [{tool.notes}]" if tool.notes else ""
    prose = shortened(tool.description, description_chars_max)
    return f"- {tool.name}({signature}){notes}: {prose}"


@lru_cache(LINES_KEPT)
def _signature(parameters: str) -> str:
    arguments = normalise(parsed_schema(parameters or "{}"), SchemaLimits())
    return _type(arguments)[1:-1] if "properties" in arguments else _type(arguments)


def shortened(text: str, chars_max: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= chars_max else text[: chars_max - 1].rstrip() + "…"


def _type(schema: Mapping[str, Any]) -> str:
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if "enum" in schema:
        return "|".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if "anyOf" in schema:
        return "|".join(dict.fromkeys(_type(variant) for variant in schema["anyOf"]))
    if schema["type"] == "array":
        return f"[{_type(schema['items'])}]"
    if schema["type"] == "object":
        return _object_type(schema)
    return str(schema.get("format", schema["type"]))


def _object_type(schema: Mapping[str, Any]) -> str:
    if "properties" not in schema:
        return f"{{name: {_type(schema['additionalProperties'])}}}"
    fields = (
        f"{name}{'' if name in schema['required'] else '?'}: {_type(part)}"
        for name, part in schema["properties"].items()
    )
    return "{" + ", ".join(fields) + "}"
