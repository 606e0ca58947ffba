from collections.abc import Sequence
from dataclasses import replace

from podium_kit.json_schemas.grammar import ACTION_CHARACTERS_MAX, grammar_characters
from podium_kit.tool_kinds.checks import InvalidTool
from tool_registry.errors import InvalidSchema
from tool_registry.models import FIND_TOOLS, ClientTool, Toolset
from tool_registry.tools.schemas import check_parameters_schema, loosened_parameters


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
