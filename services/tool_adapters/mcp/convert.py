import hashlib
import json
import re
from typing import TYPE_CHECKING

from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.registry.v1 import tool_pb2
from tool_adapters.models import SideEffect

if TYPE_CHECKING:
    from tool_adapters.mcp.discovery import Discovery, ListedTool

NAME_CHARACTERS_MAX = 64
DIGEST_CHARACTERS = 8


def discovery_to_proto(
    discovery: "Discovery", request: pb.DiscoverMcpToolsRequest
) -> pb.DiscoverMcpToolsResponse:
    specs: dict[str, tool_pb2.ToolSpec] = {}
    skipped = [pb.SkippedMcpTool(name=each.name, reason=each.reason) for each in discovery.skipped]
    for tool in discovery.tools:
        spec = _spec(tool, request)
        if spec.name in specs:
            reason = f"another tool of the list is called {spec.name} here"
            skipped.append(pb.SkippedMcpTool(name=tool.name, reason=reason))
        else:
            specs[spec.name] = spec
    return pb.DiscoverMcpToolsResponse(
        specs=specs.values(),
        server_name=discovery.server_name,
        skipped=skipped,
        notices=discovery.notices,
    )


def _spec(tool: "ListedTool", request: pb.DiscoverMcpToolsRequest) -> tool_pb2.ToolSpec:
    spec = tool_pb2.ToolSpec(
        name=_name(request.name_prefix + tool.name),
        kind=tool_pb2.TOOL_KIND_MCP,
        description=tool.description or tool.name,
        parameters_json_schema=json.dumps(tool.parameters_schema),
        side_effect=_side_effect(tool.side_effect),
        notices=tool.notices,
    )
    if tool.result_schema is not None:
        spec.result_json_schema = json.dumps(tool.result_schema)
    spec.connection.mcp.CopyFrom(request.connection)
    spec.connection.mcp.tool_name = tool.name
    return spec


def _name(name: str) -> str:
    """The name of a tool here, by its name on the server alone, so that a policy stays with it.

    One that a tool cannot have becomes similar, with a digest: `a.b` and `a_b` are two tools
    whichever of them a server lists, and in whatever order.
    """
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    plain = plain if plain[:1].isascii() and plain[:1].isalpha() else f"call_{plain}"
    if plain == name and len(name) <= NAME_CHARACTERS_MAX:
        return name
    ending = f"_{hashlib.sha256(name.encode()).hexdigest()[:DIGEST_CHARACTERS]}"
    return plain[: NAME_CHARACTERS_MAX - len(ending)] + ending


def _side_effect(side_effect: SideEffect) -> tool_pb2.SideEffect.ValueType:
    return tool_pb2.SideEffect.Value(f"SIDE_EFFECT_{side_effect.name}")
