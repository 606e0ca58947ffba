"""podium.registry.v1.ToolRegistryService."""

from typing import Any

import grpc

from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium.registry.v1.tool_registry_service_pb2_grpc import ToolRegistryServiceServicer
from tool_registry.convert import (
    decisions_to_proto,
    facts_from_proto,
    facts_to_proto,
    kind_from_proto,
    spec_from_proto,
    tool_to_proto,
    toolset_to_proto,
)
from tool_registry.errors import ToolNotFound
from tool_registry.listing import ToolFilter, filter_tools, take_page
from tool_registry.service import Registry

Context = grpc.aio.ServicerContext[Any, Any]


class ToolRegistryServicer(ToolRegistryServiceServicer):
    """Converts, calls, converts."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def RegisterTool(
        self, request: pb.RegisterToolRequest, context: Context
    ) -> pb.RegisterToolResponse:
        spec = spec_from_proto(request.spec)
        tool, created = await self._registry.register(spec, request.shared, request.validate_only)
        return pb.RegisterToolResponse(tool=tool_to_proto(tool), created=created)

    async def GetTool(self, request: pb.GetToolRequest, context: Context) -> pb.GetToolResponse:
        tool = (await self._registry.catalogue()).tool(request.name, request.version)
        return pb.GetToolResponse(tool=tool_to_proto(tool))

    async def ListTools(
        self, request: pb.ListToolsRequest, context: Context
    ) -> pb.ListToolsResponse:
        catalogue = await self._registry.catalogue()
        keep = ToolFilter(
            frozenset(kind_from_proto(number) for number in request.kinds),
            frozenset(request.tags),
            tuple(request.query.lower().split()),
        )
        tools = filter_tools(catalogue.newest_tools(request.include_deprecated), keep)
        page, token = take_page(tools, request.page_size, request.page_token)
        return pb.ListToolsResponse(
            tools=[tool_to_proto(tool) for tool in page], next_page_token=token
        )

    async def ListToolVersions(
        self, request: pb.ListToolVersionsRequest, context: Context
    ) -> pb.ListToolVersionsResponse:
        catalogue = await self._registry.catalogue()
        versions = [tool for tool in catalogue.tools if tool.spec.name == request.name][::-1]
        if not versions:
            raise ToolNotFound(request.name)
        page, token = take_page(versions, request.page_size, request.page_token)
        return pb.ListToolVersionsResponse(
            tools=[tool_to_proto(tool) for tool in page], next_page_token=token
        )

    async def DeprecateTool(
        self, request: pb.DeprecateToolRequest, context: Context
    ) -> pb.DeprecateToolResponse:
        tools = await self._registry.deprecate(request.name, request.version)
        return pb.DeprecateToolResponse(tools=[tool_to_proto(tool) for tool in tools])

    async def ResolveToolset(
        self, request: pb.ResolveToolsetRequest, context: Context
    ) -> pb.ResolveToolsetResponse:
        toolset = await self._registry.resolve(request.policy, list(request.tool_names))
        return pb.ResolveToolsetResponse(
            toolset=toolset_to_proto(toolset), decisions=decisions_to_proto(toolset.decisions)
        )

    async def RecordToolFacts(
        self, request: pb.RecordToolFactsRequest, context: Context
    ) -> pb.RecordToolFactsResponse:
        facts = [facts_from_proto(entry) for entry in request.facts]
        await self._registry.record_facts(request.reporter, facts)
        return pb.RecordToolFactsResponse()

    async def ListToolFacts(
        self, request: pb.ListToolFactsRequest, context: Context
    ) -> pb.ListToolFactsResponse:
        names = set(request.tool_names)
        facts = [
            entry
            for entry in await self._registry.list_facts()
            if not names or entry.tool_name in names
        ]
        page, token = take_page(facts, request.page_size, request.page_token)
        return pb.ListToolFactsResponse(
            facts=[facts_to_proto(entry) for entry in page], next_page_token=token
        )
