from podium.registry.v1 import tool_pb2
from podium_kit.tool_kinds.checks import InvalidTool, check_headers, check_url, require
from podium_kit.tool_kinds.kind import ToolKind

# What the transport of MCP writes itself.
MCP_HEADERS = {"accept", "accept-encoding", "content-type", "last-event-id"}


def _check(spec: tool_pb2.ToolSpec) -> None:
    mcp = spec.connection.mcp
    require("connection.mcp.tool_name", mcp.tool_name)
    match mcp.WhichOneof("transport"):
        case "stdio":
            pass
        case "http":
            check_url("connection.mcp.http.url", mcp.http.url)
            names = [(header.name, header.prefix) for header in mcp.http.secret_headers]
            names += [("Authorization", "")] if mcp.http.HasField("secret") else []
            check_headers("connection.mcp.http", mcp.http.headers, names)
            for name in (*mcp.http.headers, *(name for name, _ in names)):
                if name.lower() in MCP_HEADERS or name.lower().startswith("mcp-"):
                    raise InvalidTool(f"connection.mcp.http: {name} is written by MCP itself")
        case _:
            raise InvalidTool("connection.mcp.transport is unset; give stdio or http")


def _resource(connection: tool_pb2.Connection) -> tuple[str, ...]:
    mcp = connection.mcp
    return ("mcp", mcp.stdio.server, mcp.tool_name) if mcp.HasField("stdio") else ()


MCP = ToolKind(
    "mcp",
    "Model Context Protocol servers",
    check=_check,
    resource=_resource,
    shared_only=True,
    stateful=True,
)
