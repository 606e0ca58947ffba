import hashlib
from typing import TYPE_CHECKING, Any
from uuid import UUID

from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb
from tool_adapters.convert_tools import mcp_from_proto
from tool_adapters.following.errors import InvalidFollowing
from tool_adapters.following.models import FollowedServer, ListedSpec
from tool_adapters.mcp.convert import discovery_to_proto
from tool_adapters.secret_store import PLATFORM

if TYPE_CHECKING:
    from tool_adapters.mcp.discovery import Discovery


def server_from_proto(message: pb.FollowedMcpServer, tenant: str) -> FollowedServer:
    definition = pb.FollowedMcpServer(
        connection=message.connection,
        name_prefix=message.name_prefix,
        sku=message.sku,
        tags=message.tags,
        shared=message.shared,
    )
    return FollowedServer(
        id=id_from_proto(message.id),
        owner=PLATFORM if message.shared else tenant,
        definition=definition.SerializeToString(deterministic=True),
        transport=mcp_from_proto(message.connection).transport,
    )


def id_from_proto(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError as error:
        raise InvalidFollowing(f"id {text!r} is not a UUID; make one for each server") from error


def server_from_row(row: Any) -> FollowedServer:
    definition = pb.FollowedMcpServer.FromString(row.definition)
    transport = mcp_from_proto(definition.connection).transport
    return FollowedServer(
        str(row.id), row.owner, row.definition, transport, dict(row.listed), row.problem
    )


def server_to_proto(server: FollowedServer) -> pb.FollowedMcpServer:
    message = pb.FollowedMcpServer.FromString(server.definition)
    message.id, message.problem = server.id, server.problem
    message.tool_names.extend(sorted(server.listed))
    return message


def followed_tools(server: FollowedServer) -> registry_pb.FollowedTools:
    """Returns the names that the registry allows the server, and what its tools share."""
    definition = pb.FollowedMcpServer.FromString(server.definition)
    return registry_pb.FollowedTools(
        server_id=server.id,
        name_prefix=definition.name_prefix,
        common=tool_pb2.ToolSpec(
            kind=tool_pb2.TOOL_KIND_MCP,
            connection=tool_pb2.Connection(mcp=definition.connection),
            sku=definition.sku,
            tags=definition.tags,
        ),
        shared=definition.shared,
    )


def listed_specs(
    server: FollowedServer, discovery: "Discovery"
) -> tuple[list[ListedSpec], list[str]]:
    """The specs of the server's tools, with the SKU and the tags of all of them, and what is
    wrong with the others and with the list."""
    definition = pb.FollowedMcpServer.FromString(server.definition)
    request = pb.DiscoverMcpToolsRequest(
        connection=definition.connection, name_prefix=definition.name_prefix
    )
    listed = []
    found = discovery_to_proto(discovery, request)
    for spec in found.specs:
        spec.sku = definition.sku
        spec.tags.extend(definition.tags)
        wire = spec.SerializeToString(deterministic=True)
        listed.append(ListedSpec(spec.name, wire, hashlib.sha256(wire).hexdigest()))
    left_out = [f"{each.name} is left out: {each.reason}" for each in found.skipped]
    return listed, [*found.notices, *left_out]
