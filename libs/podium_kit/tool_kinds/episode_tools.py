"""Tools that the episode worker answers itself; they cannot be registered."""

from podium_kit.tool_kinds.kind import ToolKind

FIND_TOOLS = ToolKind(
    "find_tools",
    not_registered="find_tools is the platform's own: it is offered, not registered",
)
CLIENT = ToolKind(
    "client",
    not_registered="tools of kind client come with an episode: set its client_tools",
)
