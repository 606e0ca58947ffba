"""`python -m podium_training.synthesis.server DOMAIN.json`: a domain's tools over MCP.

The tables are in the server's working directory, so every episode has its own. One tool
more than the domain's, `state`, shows all rows, for the verifier.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from podium_training.synthesis.database import CallFailed, Database
from podium_training.synthesis.domain import STATE_TOOL, Domain, DomainTool
from podium_training.synthesis.schema import object_schema

DATABASE_FILE = "state.sqlite"


def served(domain: Domain, database: Database) -> Server[Any]:
    async def list_tools(context: Any, request: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[*map(_listed, domain.tools), _state_tool()])

    async def call_tool(context: Any, request: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            result = _called(domain, database, request.name, request.arguments or {})
        except CallFailed as error:
            return _content(str(error), failed=True)
        return _content(json.dumps(result, ensure_ascii=False))

    return Server(domain.name, on_list_tools=list_tools, on_call_tool=call_tool)


def _called(domain: Domain, database: Database, name: str, arguments: dict[str, Any]) -> Any:
    if name == STATE_TOOL:
        return database.state()
    tool = domain.tool(name)
    if tool is None:
        raise CallFailed(f"there is no tool {name!r}")
    return database.call(tool, arguments)


def _listed(tool: DomainTool) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=not tool.writes)
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.arguments_schema(),
        annotations=hints,
    )


def _state_tool() -> types.Tool:
    return types.Tool(
        name=STATE_TOOL,
        description="Shows every row of every table.",
        input_schema=object_schema({}),
        annotations=types.ToolAnnotations(read_only_hint=True),
    )


def _content(text: str, failed: bool = False) -> types.CallToolResult:
    content = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, is_error=failed)


def _opened(domain: Domain, path: Path) -> Database:
    """The tables as an earlier server of the same episode left them, or newly filled."""
    return Database(domain.tables, path) if path.exists() else Database.filled(domain, path)


async def _serve(domain: Domain) -> None:
    with _opened(domain, Path(DATABASE_FILE)) as database:
        server = served(domain, database)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


def main() -> None:
    [path] = sys.argv[1:]
    asyncio.run(_serve(Domain.read(Path(path))))


if __name__ == "__main__":
    main()
