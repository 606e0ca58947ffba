"""Tools an MCP server lists, as specs ready for RegisterTool."""

import json
import re
from collections.abc import Container

from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.registry.v1 import tool_pb2
from tool_adapters.mcp.discovery import Discovery, ListedTool
from tool_adapters.models import SideEffect

NAME_CHARACTERS_MAX = 64


def discovery_to_proto(
    discovery: Discovery, request: pb.DiscoverMcpToolsRequest
) -> pb.DiscoverMcpToolsResponse:
    """One spec per tool; the connection is the request's."""
    specs: dict[str, tool_pb2.ToolSpec] = {}
    for tool in discovery.tools:
        spec = _spec(tool, request, specs)
        specs[spec.name] = spec
    return pb.DiscoverMcpToolsResponse(specs=specs.values(), server_name=discovery.server_name)


def _spec(
    tool: ListedTool, request: pb.DiscoverMcpToolsRequest, taken: Container[str]
) -> tool_pb2.ToolSpec:
    spec = tool_pb2.ToolSpec(
        name=_free_name(_name(request.name_prefix + tool.name), taken),
        kind=tool_pb2.TOOL_KIND_MCP,
        description=tool.description or tool.name,
        parameters_json_schema=json.dumps(tool.parameters_schema),
        side_effect=_side_effect(tool.side_effect),
    )
    if tool.result_schema is not None:
        spec.result_json_schema = json.dumps(tool.result_schema)
    spec.connection.mcp.CopyFrom(request.connection)
    spec.connection.mcp.tool_name = tool.name
    return spec


def _name(name: str) -> str:
    """A tool name: '_' for dots and whatever else a name cannot hold; the server's own is kept."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return (plain if plain[:1].isalpha() else f"call_{plain}")[:NAME_CHARACTERS_MAX]


def _free_name(name: str, taken: Container[str]) -> str:
    """The name, or with a number: `a.b` and `a_b` are two tools."""
    free, number = name, 2
    while free in taken:
        ending = f"_{number}"
        free, number = name[: NAME_CHARACTERS_MAX - len(ending)] + ending, number + 1
    return free


def _side_effect(side_effect: SideEffect) -> tool_pb2.SideEffect.ValueType:
    return tool_pb2.SideEffect.Value(f"SIDE_EFFECT_{side_effect.name}")
