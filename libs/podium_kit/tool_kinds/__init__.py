"""The kinds of tools, one module each; everything that depends on a tool's kind reads it here."""

from podium_kit.tool_kinds.code import CODE
from podium_kit.tool_kinds.episode_tools import CLIENT, FIND_TOOLS
from podium_kit.tool_kinds.function import FUNCTION
from podium_kit.tool_kinds.grpc import GRPC
from podium_kit.tool_kinds.http import HTTP
from podium_kit.tool_kinds.kind import ToolKind
from podium_kit.tool_kinds.llm import LLM, models_of
from podium_kit.tool_kinds.mcp import MCP
from podium_kit.tool_kinds.podium import PODIUM
from podium_kit.tool_kinds.retrieval import RETRIEVAL

__all__ = [
    "ALL",
    "CODE",
    "FUNCTION",
    "GRPC",
    "HTTP",
    "KINDS",
    "KIND_FROM_WIRE",
    "LLM",
    "MCP",
    "PODIUM",
    "RETRIEVAL",
    "ToolKind",
    "kind_of",
    "models_of",
]

UNSPECIFIED = ToolKind("unspecified", not_registered="kind is unset; it selects the adapter")
ALL = (FUNCTION, HTTP, MCP, CODE, RETRIEVAL, LLM, GRPC, PODIUM, FIND_TOOLS, CLIENT)
# Kinds of registered tools.
KINDS = {kind.name: kind for kind in ALL if not kind.not_registered}
KIND_FROM_WIRE: dict[int, ToolKind] = {kind.number: kind for kind in KINDS.values()}
_BY_NUMBER: dict[int, ToolKind] = {kind.number: kind for kind in ALL}


def kind_of(number: int) -> ToolKind:
    """Returns the kind of a value on the wire; a newer contract's value counts as unspecified."""
    return _BY_NUMBER.get(number, UNSPECIFIED)
