"""Tools an MCP server lists, as specs ready for RegisterTool."""

import json
import re

from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.registry.v1 import tool_pb2
from tool_adapters.mcp.discovery import Discovery, ListedTool
from tool_adapters.models import SideEffect

NAME_CHARACTERS_MAX = 64


def discovery_to_proto(
    discovery: Discovery, request: pb.DiscoverMcpToolsRequest
) -> pb.DiscoverMcpToolsResponse:
    """One spec per tool; the connection is the request's."""
    specs = [_spec(tool, request) for tool in discovery.tools]
    return pb.DiscoverMcpToolsResponse(specs=specs, server_name=discovery.server_name)


def _spec(tool: ListedTool, request: pb.DiscoverMcpToolsRequest) -> tool_pb2.ToolSpec:
    spec = tool_pb2.ToolSpec(
        name=_name(request.name_prefix + tool.name),
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
    """A tool name: lower-case, with '_' for what a name cannot hold."""
    return re.sub(r"[^a-z0-9_-]", "_", name.lower())[:NAME_CHARACTERS_MAX]


def _side_effect(side_effect: SideEffect) -> tool_pb2.SideEffect.ValueType:
    return tool_pb2.SideEffect.Value(f"SIDE_EFFECT_{side_effect.name}")
