import json
from typing import Protocol

import grpc

from gateway.clients import PAGE_SIZE, answer
from gateway.responses.mcp_tools import RegisteredTool
from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium.registry.v1.tool_registry_service_pb2_grpc import ToolRegistryServiceStub
from podium_kit.rpc.identity import Identity, Scope, acting_as, current_identity

SUBJECT = "gateway"


class McpTools(Protocol):
    async def registered(self) -> list[RegisteredTool]: ...
    async def allowed(self, policy: str) -> frozenset[str]: ...


class McpToolsClient:
    def __init__(self, registry: grpc.aio.Channel) -> None:
        self._registry = ToolRegistryServiceStub(registry)

    async def registered(self) -> list[RegisteredTool]:
        """The tenant's own and the shared ones.

        The gateway lists them in its own name, because a request names a server by its address,
        which callers do not see of tools that are not theirs.
        """
        service = Identity(current_identity().tenant, SUBJECT, frozenset({Scope.FACTS_WRITE}))
        found: list[RegisteredTool] = []
        request = pb.ListToolsRequest(page_size=PAGE_SIZE, kinds=[tool_pb2.TOOL_KIND_MCP])
        while True:
            with acting_as(service):
                page = await answer(self._registry.ListTools(request))
            found += [_tool(each.spec) for each in page.tools]
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def allowed(self, policy: str) -> frozenset[str]:
        reply = await answer(self._registry.ResolveToolset(pb.ResolveToolsetRequest(policy=policy)))
        return frozenset(tool.name for tool in reply.toolset.tools)


def _tool(spec: tool_pb2.ToolSpec) -> RegisteredTool:
    mcp = spec.connection.mcp
    return RegisteredTool(
        name=spec.name,
        server=mcp.stdio.server,
        url=mcp.http.url,
        own_name=mcp.tool_name,
        description=spec.description,
        parameters_schema=json.loads(spec.parameters_json_schema or '{"type": "object"}'),
        read_only=spec.side_effect == tool_pb2.SIDE_EFFECT_PURE,
    )
