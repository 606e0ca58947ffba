"""Functions that an episode's caller offers and runs: checked as tools are, never registered."""

import re
from collections.abc import Sequence
from dataclasses import replace

from tool_registry.errors import InvalidTool
from tool_registry.models import FIND_TOOLS, ClientTool, Toolset
from tool_registry.tools.schemas import check_parameters_schema

CLIENT_TOOLS_MAX = 128
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# Agents write pages; a prompt that is full shows the beginning.
DESCRIPTION_CHARACTERS_MAX = 20_000


def with_client_tools(toolset: Toolset, offered: Sequence[ClientTool]) -> Toolset:
    """The toolset with the caller's own; one hides a registered tool of the same name.

    Raises InvalidTool, InvalidSchema.
    """
    if len(offered) > CLIENT_TOOLS_MAX:
        raise InvalidTool(f"client_tools holds {len(offered)}; give at most {CLIENT_TOOLS_MAX}")
    for at, tool in enumerate(offered):
        _check(f"client_tools[{at}]", tool)
    names = [tool.name for tool in offered]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise InvalidTool(f"client_tools names {twice} twice; give each tool a name of its own")
    kept = tuple(tool for tool in toolset.tools if tool.version.spec.name not in names)
    return replace(toolset, tools=kept, client_tools=tuple(offered))


def _check(field: str, tool: ClientTool) -> None:
    if not NAME.fullmatch(tool.name):
        raise InvalidTool(
            f"{field}.name is {tool.name[:100]!r}; it must hold 1 to 64 of a-z A-Z 0-9 _ and -"
        )
    if tool.name == FIND_TOOLS:
        raise InvalidTool(f"{field}.name: the platform's own tool is named {FIND_TOOLS}")
    if len(tool.description) > DESCRIPTION_CHARACTERS_MAX:
        raise InvalidTool(f"{field}.description is over {DESCRIPTION_CHARACTERS_MAX} characters")
    check_parameters_schema(tool.parameters_schema, f"{field}.parameters_json_schema")
