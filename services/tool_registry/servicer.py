import asyncio
from collections.abc import Sequence
from typing import Any

import grpc

from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium.registry.v1.tool_registry_service_pb2_grpc import ToolRegistryServiceServicer
from podium_kit.metering import PriceFactors
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import current_identity
from podium_kit.rpc.pages import page_size
from tool_registry.errors import InvalidFollowing
from tool_registry.facts.convert import facts_from_proto, measured_to_proto
from tool_registry.following.convert import (
    followed_from_proto,
    listed_from_proto,
    server_id_from_proto,
)
from tool_registry.following.service import Following
from tool_registry.models import PLATFORM, MeasuredTool, PolicySpec, ToolSpec, ToolVersion
from tool_registry.tools.batch import Read, ToolBatches
from tool_registry.tools.changes import CatalogueChanges
from tool_registry.tools.convert import (
    ToolModelCapabilities,
    kind_from_proto,
    new_spec_from_proto,
    tool_as_seen,
    tool_to_proto,
)
from tool_registry.tools.convert_openapi import read_openapi
from tool_registry.tools.listing import ToolFilter, take_page
from tool_registry.tools.service import Registry
from tool_registry.toolsets.convert import (
    ToolsetWriter,
    client_tools_from_proto,
    fitting_from_proto,
)
from tool_registry.toolsets.policy_checks import BudgetedModels
from tool_registry.toolsets.resolution import Resolution

VERSION_MAX = 2**31 - 1
FOUND_DEFAULT, FOUND_MAX = 10, 100
Context = grpc.aio.ServicerContext[Any, Any]


class ToolRegistryServicer(ToolRegistryServiceServicer):
    def __init__(
        self,
        registry: Registry,
        batches: ToolBatches,
        resolution: Resolution,
        following: Following,
        *,
        changes: CatalogueChanges,
        capabilities: ToolModelCapabilities,
        models: BudgetedModels,
    ) -> None:
        self._registry = registry
        self._models = models
        self._batches = batches
        self._following = following
        self._changes = changes
        self._capabilities = capabilities
        self._resolution = resolution
        self._toolsets = ToolsetWriter()

    async def RegisterTool(
        self, request: pb.RegisterToolRequest, context: Context
    ) -> pb.RegisterToolResponse:
        spec = self._spec(request.spec, shared=request.shared)
        await self._models.check(await self._policies(), [spec])
        tool, created = await self._registry.register(spec, request.shared, request.validate_only)
        return pb.RegisterToolResponse(tool=tool_to_proto(tool), created=created)

    async def RegisterTools(
        self, request: pb.RegisterToolsRequest, context: Context
    ) -> pb.RegisterToolsResponse:
        policies = await self._policies()
        read = [self._read(spec, shared=request.shared) for spec in request.specs]
        specs = [await self._checked(policies, each) for each in read]
        outcomes = await self._batches.register(specs, request.shared, request.validate_only)
        return pb.RegisterToolsResponse(
            tools=[
                pb.RegisteredTool(name=spec.name, **vars(outcome))
                for spec, outcome in zip(request.specs, outcomes, strict=True)
            ]
        )

    async def _policies(self) -> list[PolicySpec]:
        return [policy.spec for policy in await self._registry.newest_policies()]

    async def _checked(self, policies: Sequence[PolicySpec], read: Read) -> Read:
        if isinstance(read, DomainError):
            return read
        try:
            await self._models.check(policies, [read])
        except DomainError as error:
            return error
        return read

    async def GetTool(self, request: pb.GetToolRequest, context: Context) -> pb.GetToolResponse:
        tool = (await self._registry.catalogue()).tools.get(request.name, request.version)
        message = tool_as_seen(tool, current_identity())
        for alias, known in self._capabilities.of(tool_to_proto(tool).spec).items():
            message.model_capabilities[alias].CopyFrom(known)
        return pb.GetToolResponse(tool=message)

    async def ListTools(
        self, request: pb.ListToolsRequest, context: Context
    ) -> pb.ListToolsResponse:
        tools = (await self._registry.catalogue()).tools
        keep = ToolFilter(
            frozenset(kind_from_proto(number) for number in request.kinds),
            frozenset(request.tags),
            tuple(request.query.lower().split()),
        )
        newest = tools.newest() if request.include_deprecated else tools.current
        found = [tool for tool in newest if keep.keeps(tool)]
        page, token = take_page(found, _name, request.page_size, request.page_token, _bytes)
        return pb.ListToolsResponse(
            tools=[tool_as_seen(tool, current_identity()) for tool in page], next_page_token=token
        )

    async def ListToolVersions(
        self, request: pb.ListToolVersionsRequest, context: Context
    ) -> pb.ListToolVersionsResponse:
        versions = (await self._registry.catalogue()).tools.versions(request.name)[::-1]
        page, token = take_page(versions, _age, request.page_size, request.page_token, _bytes)
        return pb.ListToolVersionsResponse(
            tools=[tool_as_seen(tool, current_identity()) for tool in page], next_page_token=token
        )

    async def DeprecateTool(
        self, request: pb.DeprecateToolRequest, context: Context
    ) -> pb.DeprecateToolResponse:
        tools = await self._registry.deprecate(request.name, request.version)
        return pb.DeprecateToolResponse(tools=[tool_to_proto(tool) for tool in tools])

    async def DeleteTool(
        self, request: pb.DeleteToolRequest, context: Context
    ) -> pb.DeleteToolResponse:
        tools = await self._registry.delete(request.name, request.version)
        return pb.DeleteToolResponse(tools=[tool_to_proto(tool) for tool in tools])

    async def SearchTools(
        self, request: pb.SearchToolsRequest, context: Context
    ) -> pb.SearchToolsResponse:
        keep = ToolFilter(
            frozenset(kind_from_proto(number) for number in request.kinds),
            frozenset(request.tags),
            words=(),
        )
        found, embeddings_used = await self._resolution.found(request.query)
        size = page_size(request.page_size, FOUND_DEFAULT, FOUND_MAX)
        kept = [each for each in found if keep.keeps(each.tool)][:size]
        return pb.SearchToolsResponse(
            results=[
                pb.FoundTool(tool=tool_as_seen(each.tool, current_identity()), score=each.score)
                for each in kept
            ],
            embeddings_used=embeddings_used,
        )

    async def ReadOpenApi(
        self, request: pb.ReadOpenApiRequest, context: Context
    ) -> pb.ReadOpenApiResponse:
        # A large document takes seconds, which others need not wait.
        return await asyncio.to_thread(read_openapi, request)

    async def ResolveToolset(
        self, request: pb.ResolveToolsetRequest, context: Context
    ) -> pb.ResolveToolsetResponse:
        toolset = await self._resolution.resolve(
            request.policy,
            list(request.tool_names),
            fitting_from_proto(request),
            PriceFactors.read(request.price_factors),
            client_tools_from_proto(request.client_tools),
            for_direct_calls=request.for_direct_calls,
        )
        return self._toolsets.reply(toolset)

    async def AwaitChange(
        self, request: pb.AwaitChangeRequest, context: Context
    ) -> pb.AwaitChangeResponse:
        return pb.AwaitChangeResponse(version=await self._changes.after(request.version))

    async def AllowFollowing(
        self, request: pb.AllowFollowingRequest, context: Context
    ) -> pb.AllowFollowingResponse:
        owner = PLATFORM if request.followed.shared else current_identity().tenant
        await self._following.allow(followed_from_proto(request.followed, owner))
        return pb.AllowFollowingResponse()

    async def EndFollowing(
        self, request: pb.EndFollowingRequest, context: Context
    ) -> pb.EndFollowingResponse:
        await self._following.end(server_id_from_proto(request.server_id))
        return pb.EndFollowingResponse()

    async def UpdateFollowedTool(
        self, request: pb.UpdateFollowedToolRequest, context: Context
    ) -> pb.UpdateFollowedToolResponse:
        server_id = server_id_from_proto(request.server_id)
        match request.WhichOneof("change"):
            case "listed":
                await self._following.register(server_id, listed_from_proto(request.listed))
            case "vanished_name":
                await self._following.deprecate(server_id, request.vanished_name)
            case _:
                raise InvalidFollowing("change is unset; give listed or vanished_name")
        return pb.UpdateFollowedToolResponse()

    async def RecordToolFacts(
        self, request: pb.RecordToolFactsRequest, context: Context
    ) -> pb.RecordToolFactsResponse:
        now = self._resolution.clock()
        facts = [facts_from_proto(entry, now) for entry in request.facts]
        await self._resolution.record_facts(request.reporter, facts)
        return pb.RecordToolFactsResponse()

    async def ListToolFacts(
        self, request: pb.ListToolFactsRequest, context: Context
    ) -> pb.ListToolFactsResponse:
        names = set(request.tool_names)
        measured = [
            entry
            for entry in await self._resolution.facts()
            if not names or entry.facts.tool_name in names
        ]
        page, token = take_page(measured, _subject, request.page_size, request.page_token)
        now = self._resolution.clock()
        return pb.ListToolFactsResponse(
            facts=[measured_to_proto(entry, now) for entry in page], next_page_token=token
        )

    def _spec(self, message: tool_pb2.ToolSpec, *, shared: bool) -> ToolSpec:
        spec = new_spec_from_proto(message, shared=shared)
        self._capabilities.check(message)
        return spec

    def _read(self, message: tool_pb2.ToolSpec, *, shared: bool) -> Read:
        try:
            return self._spec(message, shared=shared)
        except DomainError as error:
            return error


def _name(tool: ToolVersion) -> str:
    return tool.spec.name


def _bytes(tool: ToolVersion) -> int:
    return len(tool.spec.wire)


def _age(tool: ToolVersion) -> str:
    return f"{VERSION_MAX - tool.version:010}"


def _subject(measured: MeasuredTool) -> str:
    # It sorts before every character a name may hold; a token may not hold NUL.
    return f"{measured.facts.tool_name}\x01{measured.facts.model_alias}"
