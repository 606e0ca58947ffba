import type { Input, ListOptions } from "./inputs.js";
import type { Pages } from "./pages.js";
import type {
  ApproveProposalResponse,
  DeleteToolResponse,
  DeprecateToolResponse,
  DiscoverMcpToolsResponse,
  FollowedMcpServer,
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
  RegisterToolResponse,
  RegisterToolsResponse,
  RejectProposalResponse,
  SearchToolsResponse,
  Tool,
  ToolFacts,
  ToolSpec,
} from "./schema.js";
import { path, required, type Transport } from "./transport.js";

/** What episodes may call. */
export class Tools {
  constructor(private readonly transport: Transport) {}

  /** A tool, or a new version of it; the same spec again keeps its version. */
  async register(spec: Input<ToolSpec>, options: { shared?: boolean } = {}): Promise<Tool> {
    const body = { spec, shared: options.shared ?? false };
    const reply = await this.transport.call<RegisterToolResponse>("POST", "/v1/tools", { body });
    return required(reply.tool);
  }

  /** At most 500 at once; one with a `problem` is left out. */
  async registerMany(
    specs: Input<ToolSpec>[],
    options: { shared?: boolean } = {},
  ): Promise<RegisteredTool[]> {
    const body = { specs, shared: options.shared ?? false };
    const reply = await this.transport.call<RegisterToolsResponse>("POST", "/v1/tools/batch", { body });
    return reply.tools;
  }

  /** Throws BadRequest for what cannot be registered; stores nothing. */
  async validate(spec: Input<ToolSpec>): Promise<void> {
    await this.transport.call("POST", "/v1/tools", { body: { spec, validate_only: true } });
  }

  /** One version; unset means the newest. */
  async get(name: string, version = 0): Promise<Tool> {
    const query = { version };
    const reply = await this.transport.call<GetToolResponse>("GET", path`/v1/tools/${name}`, { query });
    return required(reply.tool);
  }

  /** Newest versions in name order. */
  list(
    options: ListOptions & {
      query?: string;
      kinds?: ToolSpec["kind"][];
      tags?: string[];
      includeDeprecated?: boolean;
    } = {},
  ): Pages<Tool> {
    return this.transport.pages("/v1/tools", (page: ListToolsResponse) => page.tools, {
      query: options.query,
      kinds: options.kinds,
      tags: options.tags,
      include_deprecated: options.includeDeprecated,
      page_size: options.pageSize,
    });
  }

  /** Tools that fit a task, best first. */
  async search(query: string, options: ListOptions = {}): Promise<SearchToolsResponse> {
    return this.transport.call("GET", "/v1/tool-search", {
      query: { query, page_size: options.pageSize },
    });
  }

  /** Newest first. */
  versions(name: string, options: ListOptions = {}): Pages<Tool> {
    const items = (page: ListToolVersionsResponse) => page.tools;
    return this.transport.pages(path`/v1/tools/${name}/versions`, items, {
      page_size: options.pageSize,
    });
  }

  /** Takes versions out of new toolsets; unset means all of them. */
  async deprecate(name: string, version = 0): Promise<Tool[]> {
    const address = path`/v1/tools/${name}/deprecate`;
    const body = { version };
    return (await this.transport.call<DeprecateToolResponse>("POST", address, { body })).tools;
  }

  /** Deletes versions; unset means all of them. */
  async delete(name: string, version = 0): Promise<Tool[]> {
    const address = path`/v1/tools/${name}`;
    const query = { version };
    return (await this.transport.call<DeleteToolResponse>("DELETE", address, { query })).tools;
  }

  /** Measured latency, success and cost. */
  facts(names: string[] = [], options: ListOptions = {}): Pages<ToolFacts> {
    return this.transport.pages("/v1/tool-facts", (page: ListToolFactsResponse) => page.facts, {
      tool_names: names,
      page_size: options.pageSize,
    });
  }

  /** Specs for the operations of an OpenAPI document; register those that you want. */
  async readOpenApi(request: Input<ReadOpenApiRequest>): Promise<ReadOpenApiResponse> {
    return this.transport.call("POST", "/v1/tools/read-openapi", { body: request });
  }

  /** Specs for the tools of an MCP server; register those that you want. */
  async discoverMcp(
    connection: Input<McpConnection>,
    namePrefix = "",
  ): Promise<DiscoverMcpToolsResponse> {
    const body = { connection, name_prefix: namePrefix };
    return this.transport.call("POST", "/v1/tools/discover-mcp", { body });
  }

  /** Keeps the tools of an MCP server as the server has them. */
  async followMcp(server: Input<FollowedMcpServer>): Promise<FollowedMcpServer> {
    const body = { server };
    const reply = await this.transport.call<FollowMcpServerResponse>(
      "POST",
      "/v1/followed-mcp-servers",
      { body },
    );
    return required(reply.server);
  }

  /** MCP servers that are followed. */
  followedMcp(options: ListOptions = {}): Pages<FollowedMcpServer> {
    const items = (page: ListFollowedMcpServersResponse) => page.servers;
    return this.transport.pages("/v1/followed-mcp-servers", items, { page_size: options.pageSize });
  }

  /** Ends following; the tools that it had are deprecated. */
  async unfollowMcp(serverId: string): Promise<void> {
    await this.transport.call("DELETE", path`/v1/followed-mcp-servers/${serverId}`);
  }

  /** Has an llm tool write a description from past episodes, for review. */
  async proposeDescription(request: Input<ProposeDescriptionRequest>): Promise<Proposal> {
    const reply = await this.transport.call<ProposeDescriptionResponse>("POST", "/v1/tool-proposals", {
      body: request,
    });
    return required(reply.proposal);
  }

  /** Newest first. */
  proposals(toolName = "", options: ListOptions = {}): Pages<Proposal> {
    const items = (page: ListProposalsResponse) => page.proposals;
    const query = { tool_name: toolName, page_size: options.pageSize };
    return this.transport.pages("/v1/tool-proposals", items, query);
  }

  /** Registers the described version, with the text as it was edited if one is given. */
  async approveProposal(proposalId: string, description = ""): Promise<ApproveProposalResponse> {
    const address = path`/v1/tool-proposals/${proposalId}/approve`;
    return this.transport.call("POST", address, { body: { description } });
  }

  /** Drops it. */
  async rejectProposal(proposalId: string): Promise<Proposal> {
    const address = path`/v1/tool-proposals/${proposalId}/reject`;
    const reply = await this.transport.call<RejectProposalResponse>("POST", address, { body: {} });
    return required(reply.proposal);
  }
}
