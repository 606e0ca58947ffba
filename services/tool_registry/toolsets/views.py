import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from podium_kit.attachments import MediaKind
from podium_kit.json_schemas.grammar import ACTION_CHARACTERS_MAX, grammar_characters
from podium_kit.money import Money
from podium_kit.tool_kinds.checks import InvalidTool
from tool_registry.errors import InvalidSchema
from tool_registry.models import (
    FIND_TOOLS,
    ClientTool,
    Facts,
    ModelChoice,
    Price,
    Toolset,
    ToolSpec,
)
from tool_registry.tools.checks import MODEL_ARGUMENT, check_parameters_schema, loosened_parameters
from tool_registry.toolsets.prices import cost_of

WORDS_OF_KIND = {MediaKind.IMAGE: "images", MediaKind.PDF: "PDF files"}
FactsByModel = Mapping[tuple[str, str], Facts]
PricesBySku = Mapping[str, Price]


def describe_tool(spec: ToolSpec, choices: Sequence[ModelChoice]) -> str:
    """The owner's description, then what each model is good at and reads besides text."""
    if not offers_models(spec):
        reads = _reads(choices[0]) if choices else ""
        return f"{spec.description.rstrip()} {reads}" if reads else spec.description
    described = (
        (choice.alias, f"{choice.description} {_reads(choice)}".strip()) for choice in choices
    )
    about = [f"- {alias}: {words}" for alias, words in described if words]
    return "\n".join([spec.description, *about])


def _reads(choice: ModelChoice) -> str:
    kinds = " and ".join(WORDS_OF_KIND[kind] for kind in sorted(choice.takes))
    return f"Reads {kinds}." if kinds else ""


def parameters_with_models(spec: ToolSpec, choices: Sequence[ModelChoice]) -> str:
    """The arguments' schema; the models a policy leaves are the enum of `model`."""
    if not offers_models(spec):
        return spec.parameters_schema
    schema = json.loads(spec.parameters_schema)
    argument = {"type": "string", "enum": [choice.alias for choice in choices]}
    schema["properties"] = {**schema.get("properties", {}), MODEL_ARGUMENT: argument}
    schema["required"] = sorted({MODEL_ARGUMENT, *schema.get("required", [])})
    return json.dumps(schema, ensure_ascii=False)


def offers_models(spec: ToolSpec) -> bool:
    """Returns whether a call must say which model. One that a policy narrowed to one still must:
    the adapters know the version, not the policy."""
    return len(spec.models) > 1


def facts_of(spec: ToolSpec, choice: ModelChoice, facts: FactsByModel) -> Facts | None:
    """The measurements of a choice; of the whole tool when it has only one."""
    own = facts.get((spec.name, choice.alias))
    return own or (None if offers_models(spec) else facts.get((spec.name, "")))


def mean_cost(price: Price | None, facts: Facts | None) -> Money | None:
    if price is None or facts is None or not facts.sample_count:
        return None
    total = cost_of(price, facts.usage)
    return Money(total.amount / facts.sample_count, total.currency_code).quantized()


def with_client_tools(toolset: Toolset, offered: Sequence[ClientTool]) -> Toolset:
    """The toolset with the caller's own; one hides a registered tool of the same name.

    Raises InvalidTool, InvalidSchema.
    """
    offered = [_checked(f"client_tools[{at}]", tool) for at, tool in enumerate(offered)]
    characters = 0
    for tool in offered:
        characters += grammar_characters(tool.parameters_schema)
        if characters > ACTION_CHARACTERS_MAX:
            raise InvalidTool(
                f"client_tools: the schemas up to {tool.name}, written out, have {characters}"
                f" characters, and at most {ACTION_CHARACTERS_MAX} are offered at once; offer fewer"
            )
    names = [tool.name for tool in offered]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise InvalidTool(f"client_tools names {twice} twice; give each tool a name of its own")
    kept = tuple(tool for tool in toolset.tools if tool.version.spec.name not in names)
    return replace(toolset, tools=kept, client_tools=tuple(offered))


def _checked(field: str, tool: ClientTool) -> ClientTool:
    """The tool with a schema that can be enforced: the caller checks the rest of its own."""
    if tool.name == FIND_TOOLS:
        raise InvalidTool(f"{field}.name: the platform's own tool is named {FIND_TOOLS}")
    place = f"{field}.parameters_json_schema"
    try:
        check_parameters_schema(tool.parameters_schema, place)
    except InvalidSchema:
        return replace(tool, parameters_schema=loosened_parameters(tool.parameters_schema, place))
    return tool
