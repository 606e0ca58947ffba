# Written by `make sdk` from podium_client/_async; do not edit.
"""Tools: register, find, measure, import."""

from collections.abc import Sequence

from podium_client._sync.pages import Pages
from podium_client._sync.transport import Transport, required
from podium_client.models import (
    ApproveProposalResponse,
    DeleteToolResponse,
    DeprecateToolResponse,
    DiscoverMcpToolsRequest,
    DiscoverMcpToolsResponse,
    FollowedMcpServer,
    FollowMcpServerRequest,
    FollowMcpServerResponse,
    GetToolResponse,
    ListFollowedMcpServersResponse,
    ListProposalsResponse,
    ListToolFactsResponse,
    ListToolsResponse,
    ListToolVersionsResponse,
    McpConnection,
    Proposal,
    ProposeDescriptionRequest,
    ProposeDescriptionResponse,
    ReadOpenApiRequest,
    ReadOpenApiResponse,
    RegisteredTool,
    RegisterToolRequest,
    RegisterToolResponse,
    RegisterToolsRequest,
    RegisterToolsResponse,
    RejectProposalResponse,
    SearchToolsResponse,
    Tool,
    ToolFacts,
    ToolSpec,
    UnfollowMcpServerResponse,
)
from podium_client.wire import path

TOOL = "/v1/tools/{name}"
PROPOSAL = "/v1/tool-proposals/{id}"


class Tools:
    """The tools that episodes may call."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def register(self, spec: ToolSpec, *, shared: bool = False) -> Tool:
        """A tool, or a new version of it; the same spec again keeps its version."""
        body = RegisterToolRequest(spec=spec, shared=shared)
        reply = self._transport.call("POST", "/v1/tools", RegisterToolResponse, body=body)
        return required(reply.tool)

    def register_many(
        self, specs: Sequence[ToolSpec], *, shared: bool = False
    ) -> Sequence[RegisteredTool]:
        """Registers at most 500 tools at once; one with a `problem` is left out."""
        body = RegisterToolsRequest(specs=[*specs], shared=shared)
        reply = self._transport.call(
            "POST", "/v1/tools/batch", RegisterToolsResponse, body=body
        )
        return reply.tools

    def validate(self, spec: ToolSpec) -> None:
        """Raises BadRequest for what cannot be registered; stores nothing."""
        body = RegisterToolRequest(spec=spec, validate_only=True)
        self._transport.call("POST", "/v1/tools", RegisterToolResponse, body=body)

    def get(self, name: str, version: int = 0) -> Tool:
        """One version; 0 means the newest."""
        reply = self._transport.call(
            "GET", path(TOOL, name=name), GetToolResponse, query={"version": version}
        )
        return required(reply.tool)

    def list(
        self,
        *,
        query: str = "",
        kinds: Sequence[str] = (),
        tags: Sequence[str] = (),
        include_deprecated: bool = False,
        page_size: int = 0,
    ) -> Pages[Tool]:
        """Newest versions in name order. A kind is like TOOL_KIND_HTTP."""
        return self._transport.pages(
            "/v1/tools",
            ListToolsResponse,
            lambda page: (page.tools, page.next_page_token),
            {
                "query": query,
                "kinds": kinds,
                "tags": tags,
                "include_deprecated": include_deprecated,
                "page_size": page_size,
            },
        )

    def search(self, query: str, *, page_size: int = 0) -> SearchToolsResponse:
        """Tools that fit a task, best first."""
        return self._transport.call(
            "GET",
            "/v1/tool-search",
            SearchToolsResponse,
            query={"query": query, "page_size": page_size},
        )

    def versions(self, name: str, *, page_size: int = 0) -> Pages[Tool]:
        """Newest first."""
        return self._transport.pages(
            path(TOOL + "/versions", name=name),
            ListToolVersionsResponse,
            lambda page: (page.tools, page.next_page_token),
            {"page_size": page_size},
        )

    def deprecate(self, name: str, version: int = 0) -> Sequence[Tool]:
        """Takes versions out of new toolsets; 0 means all of them."""
        address = path(TOOL + "/deprecate", name=name)
        reply = self._transport.call(
            "POST", address, DeprecateToolResponse, body={"version": version}
        )
        return reply.tools

    def delete(self, name: str, version: int = 0) -> Sequence[Tool]:
        """Deletes versions; 0 means all of them."""
        reply = self._transport.call(
            "DELETE", path(TOOL, name=name), DeleteToolResponse, query={"version": version}
        )
        return reply.tools

    def facts(self, names: Sequence[str] = (), *, page_size: int = 0) -> Pages[ToolFacts]:
        """Measured latency, success and cost."""
        return self._transport.pages(
            "/v1/tool-facts",
            ListToolFactsResponse,
            lambda page: (page.facts, page.next_page_token),
            {"tool_names": names, "page_size": page_size},
        )

    def read_openapi(self, request: ReadOpenApiRequest) -> ReadOpenApiResponse:
        """Specs for the operations of an OpenAPI document; register those that you want."""
        return self._transport.call(
            "POST", "/v1/tools/read-openapi", ReadOpenApiResponse, body=request
        )

    def discover_mcp(
        self, connection: McpConnection, *, name_prefix: str = ""
    ) -> DiscoverMcpToolsResponse:
        """Specs for the tools of an MCP server; register those that you want."""
        body = DiscoverMcpToolsRequest(connection=connection, name_prefix=name_prefix)
        return self._transport.call(
            "POST", "/v1/tools/discover-mcp", DiscoverMcpToolsResponse, body=body
        )

    def follow_mcp(self, server: FollowedMcpServer) -> FollowedMcpServer:
        """Keeps the tools of an MCP server as the server has them."""
        body = FollowMcpServerRequest(server=server)
        reply = self._transport.call(
            "POST", "/v1/followed-mcp-servers", FollowMcpServerResponse, body=body
        )
        return required(reply.server)

    def followed_mcp(self, *, page_size: int = 0) -> Pages[FollowedMcpServer]:
        """MCP servers that are followed."""
        return self._transport.pages(
            "/v1/followed-mcp-servers",
            ListFollowedMcpServersResponse,
            lambda page: (page.servers, page.next_page_token),
            {"page_size": page_size},
        )

    def unfollow_mcp(self, server_id: str) -> None:
        """Ends following; the tools that it had are deprecated."""
        address = path("/v1/followed-mcp-servers/{id}", id=server_id)
        self._transport.call("DELETE", address, UnfollowMcpServerResponse)

    def propose_description(self, request: ProposeDescriptionRequest) -> Proposal:
        """Has an llm tool write a description from past episodes, for review."""
        reply = self._transport.call(
            "POST", "/v1/tool-proposals", ProposeDescriptionResponse, body=request
        )
        return required(reply.proposal)

    def proposals(self, tool_name: str = "", *, page_size: int = 0) -> Pages[Proposal]:
        """Newest first."""
        return self._transport.pages(
            "/v1/tool-proposals",
            ListProposalsResponse,
            lambda page: (page.proposals, page.next_page_token),
            {"tool_name": tool_name, "page_size": page_size},
        )

    def approve_proposal(
        self, proposal_id: str, description: str = ""
    ) -> ApproveProposalResponse:
        """Registers the described version, with the text as it was edited if one is given."""
        address = path(PROPOSAL + "/approve", id=proposal_id)
        return self._transport.call(
            "POST", address, ApproveProposalResponse, body={"description": description}
        )

    def reject_proposal(self, proposal_id: str) -> Proposal:
        """Drops it."""
        address = path(PROPOSAL + "/reject", id=proposal_id)
        reply = self._transport.call("POST", address, RejectProposalResponse, body={})
        return required(reply.proposal)
