import grpc

from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium.registry.v1.tool_registry_service_pb2_grpc import ToolRegistryServiceStub
from podium_kit.rpc.identity import Identity, Scope, acting_as
from podium_kit.rpc.status import answered
from tool_adapters.clients import PLATFORM_TENANT, SUBJECT
from tool_adapters.following.convert import followed_tools
from tool_adapters.following.models import FollowedServer, ListedSpec
from tool_adapters.secret_store import PLATFORM


class RegistryPermission:
    """tool-registry over a channel that forwards the caller's token."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = ToolRegistryServiceStub(channel)

    async def allow(self, server: FollowedServer) -> None:
        request = pb.AllowFollowingRequest(followed=followed_tools(server))
        await answered(self._stub.AllowFollowing(request))

    async def end(self, server_id: str) -> None:
        await answered(self._stub.EndFollowing(pb.EndFollowingRequest(server_id=server_id)))


class RegistryCatalogue:
    """tool-registry over a channel that signs; the identity is good for followed tools alone."""

    def __init__(self, signed_channel: grpc.aio.Channel) -> None:
        self._stub = ToolRegistryServiceStub(signed_channel)

    async def register(self, server: FollowedServer, spec: ListedSpec) -> None:
        """Registers a new version, unless it is the same."""
        listed = tool_pb2.ToolSpec.FromString(spec.wire)
        await self._update(server, pb.UpdateFollowedToolRequest(listed=listed))

    async def deprecate(self, server: FollowedServer, name: str) -> None:
        await self._update(server, pb.UpdateFollowedToolRequest(vanished_name=name))

    async def _update(self, server: FollowedServer, request: pb.UpdateFollowedToolRequest) -> None:
        request.server_id = server.id
        tenant = PLATFORM_TENANT if server.owner == PLATFORM else server.owner
        with acting_as(Identity(tenant, SUBJECT, frozenset({Scope.TOOLS_FOLLOW}))):
            await answered(self._stub.UpdateFollowedTool(request))
