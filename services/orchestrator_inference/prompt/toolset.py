"""Facts derived from a request's tools, computed once per set and cached."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from orchestrator_inference.action.schema import ActionOptions, build_constraint, parsed_schema
from orchestrator_inference.errors import DuplicateTool, InvalidToolSchema
from orchestrator_inference.models import Constraint, PromptTool, ResultSection
from orchestrator_inference.prompt.budgets import estimated_tokens
from orchestrator_inference.prompt.fitting import ShownTools
from podium_kit.json_schemas.grammar import SchemaLimits, normalise
from podium_kit.json_schemas.inlining import SchemaError

# Hundreds of tools are measured one by one where not all fit.
LINES_KEPT = 10_000
TOOLSETS_KEPT = 256


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


class PromptToolset:
    def __init__(self, tools: Sequence[PromptTool], description_chars_max: int) -> None:
        self.sections: dict[str, ResultSection] = {}
        for tool in tools:
            if tool.name in self.sections:
                raise DuplicateTool(tool.name)
            self.sections[tool.name] = tool.section
        self.listing = list_tools(tools, description_chars_max)
        self._tools = tuple(tools)
        self._description_chars_max = description_chars_max

    def listing_of(self, shown: ShownTools) -> str:
        lines = self._lines(shown.tools, shown.description_chars_max)
        return "\n".join(part for part in (lines, shown.note()) if part)

    def listing_tokens(self, tools: Sequence[PromptTool], description_chars_max: int) -> int:
        return estimated_tokens(self._lines(tools, description_chars_max))

    def _lines(self, tools: Sequence[PromptTool], description_chars_max: int) -> str:
        whole = description_chars_max == self._description_chars_max
        if whole and tuple(tools) == self._tools:
            return self.listing
        return list_tools(tools, description_chars_max)

    def constraint(self, options: ActionOptions) -> Constraint:
        return build_constraint(self._tools, options)


class PromptToolsets:
    def __init__(self, description_chars_max: int) -> None:
        self._description_chars_max = description_chars_max
        self.of = lru_cache(TOOLSETS_KEPT)(self._build)

    def _build(self, tools: tuple[PromptTool, ...]) -> PromptToolset:
        return PromptToolset(tools, self._description_chars_max)
