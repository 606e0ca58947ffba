from uuid import UUID

from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from tool_registry.errors import InvalidFollowing
from tool_registry.following.models import FollowedTools, ListedTool
from tool_registry.tools.convert import new_spec_from_proto

# What a server says of its tools; everything else is its owner's to say.
DECIDED_BY_SERVERS = (
    "name",
    "description",
    "parameters_json_schema",
    "result_json_schema",
    "side_effect",
    "notices",
)


def followed_from_proto(message: pb.FollowedTools, owner: str) -> FollowedTools:
    if message.common.connection.WhichOneof("target") != "mcp":
        raise InvalidFollowing("common.connection is no MCP server; only those are followed")
    return FollowedTools(
        server_id=server_id_from_proto(message.server_id),
        owner=owner,
        name_prefix=message.name_prefix,
        common=_common(message.common),
    )


def listed_from_proto(spec: tool_pb2.ToolSpec) -> ListedTool:
    return ListedTool(new_spec_from_proto(spec), _common(spec))


def server_id_from_proto(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError as error:
        raise InvalidFollowing(f"server_id {text!r} is not a UUID") from error


def _common(spec: tool_pb2.ToolSpec) -> bytes:
    """All of a spec that must be the same in each of a server's tools, serialized."""
    common = tool_pb2.ToolSpec()
    common.CopyFrom(spec)
    for field in DECIDED_BY_SERVERS:
        common.ClearField(field)  # type: ignore[arg-type]
    common.connection.mcp.ClearField("tool_name")
    return common.SerializeToString(deterministic=True)
