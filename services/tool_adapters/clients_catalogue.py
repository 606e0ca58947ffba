"""Registers and deprecates tools for their owners, in the adapters' own name."""

import grpc

from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium.registry.v1.tool_registry_service_pb2_grpc import ToolRegistryServiceStub
from rpckit.identity import Identity, Scope, acting_as
from rpckit.status import domain_error_from
from tool_adapters.clients import SUBJECT
from tool_adapters.following.models import ListedSpec
from tool_adapters.secret_store import PLATFORM

# The tenant of calls that are for the platform itself.
PLATFORM_TENANT = "platform"


class RegistryCatalogue:
    """tool-registry over a channel that signs for whomever acts."""

    def __init__(self, signed_channel: grpc.aio.Channel) -> None:
        self._stub = ToolRegistryServiceStub(signed_channel)

    async def register(self, owner: str, spec: ListedSpec) -> None:
        """A new version, unless it is the same. Raises what the registry raises."""
        request = pb.RegisterToolRequest(
            spec=tool_pb2.ToolSpec.FromString(spec.wire), shared=owner == PLATFORM
        )
        try:
            with acting_as(_identity(owner)):
                await self._stub.RegisterTool(request)
        except grpc.aio.AioRpcError as error:
            raise domain_error_from(error) from error

    async def deprecate(self, owner: str, name: str) -> None:
        """Takes every version out of new toolsets. Raises what the registry raises."""
        try:
            with acting_as(_identity(owner)):
                await self._stub.DeprecateTool(pb.DeprecateToolRequest(name=name))
        except grpc.aio.AioRpcError as error:
            raise domain_error_from(error) from error


def _identity(owner: str) -> Identity:
    if owner == PLATFORM:
        return Identity(PLATFORM_TENANT, SUBJECT, frozenset({Scope.PLATFORM_ADMIN}))
    return Identity(owner, SUBJECT, frozenset({Scope.TOOLS_WRITE}))
