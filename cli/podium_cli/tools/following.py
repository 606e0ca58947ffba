import asyncio
from typing import Annotated
from uuid import uuid4

import typer
from rich.text import Text

from podium.adapters.v1 import tool_adapter_service_pb2
from podium_cli.command import Session, command
from podium_cli.formats import counted
from podium_cli.listing import listing
from podium_cli.tools.imports import Headers, McpServer, SecretHeaders, Sku, Tags
from podium_cli.tools.mcp_import import connection_of, discover
from podium_cli.tools.tools import Shared, app
from podium_kit.client.errors import UserError
from podium_kit.client.gateway import Gateway, segment

PATH = "/v1/followed-mcp-servers"
# It is registered in the background, within seconds.
POLLS, POLL_S = 60, 0.5


@command(app, "follow-mcp")
async def follow_mcp(
    session: Session,
    server: McpServer,
    *,
    prefix: Annotated[
        str, typer.Option(help="Put before every name, like airline_; no other server's.")
    ],
    secret_header: SecretHeaders = None,
    header: Headers = None,
    sku: Sku = "",
    tag: Tags = None,
    shared: Shared = False,
) -> None:
    """Register every tool of a Model Context Protocol server, and its changes from now on.

    podium tools follow-mcp --prefix board_ tau2-mock

    A changed tool gets a version, a vanished one is deprecated, within seconds. The same
    prefix again follows the server named now.
    """
    async with session.gateway(admin=shared) as gateway:
        # A server that does not answer now is more likely misspelt than away.
        connection = connection_of(server, secret_header or (), header or ())
        found = await discover(gateway, connection, prefix)
        known = await _followed(gateway, prefix, shared)
        asked = tool_adapter_service_pb2.FollowedMcpServer(
            id=known.id if known else str(uuid4()),
            connection=connection,
            name_prefix=prefix,
            sku=sku,
            tags=tag or [],
            shared=shared,
        )
        reply = await gateway.post(
            PATH,
            tool_adapter_service_pb2.FollowMcpServerRequest(server=asked),
            tool_adapter_service_pb2.FollowMcpServerResponse,
        )
        server_now = await _taken(gateway, reply.server, {spec.name for spec in found.specs})
    taken, listed = len(server_now.tool_names), len(found.specs) + len(found.skipped)
    lines = [f"{prefix} is followed: {taken} of {counted(listed, 'tool')} registered"]
    if server_now.problem:
        lines.append(server_now.problem)
    elif taken < listed:
        lines.append("the others follow; `podium tools followed` lists them")
    reply.server.CopyFrom(server_now)
    session.output.result(reply, Text("\n".join(lines)))


@command(app, "unfollow-mcp")
async def unfollow_mcp(
    session: Session,
    prefix: Annotated[str, typer.Argument(help="Prefix of its tools.", show_default=False)],
    *,
    shared: Shared = False,
) -> None:
    """Stop following a server; its tools stay as they are."""
    async with session.gateway(admin=shared) as gateway:
        known = await _followed(gateway, prefix, shared)
        if known is None:
            whose = "for every tenant " if shared else ""
            raise UserError(
                f"no MCP server is followed {whose}with the prefix {prefix}",
                "`podium tools followed` lists the followed servers",
            )
        await gateway.delete(
            f"{PATH}/{segment(known.id)}", tool_adapter_service_pb2.UnfollowMcpServerResponse
        )
    session.output.result(known, f"{prefix} is not followed any more; its tools stay")


@command(app, "followed")
async def followed(session: Session) -> None:
    """List the MCP servers that are followed, and what is wrong with any."""
    async with session.gateway() as gateway:
        found = await _all(gateway)
    rows = [
        (
            server.name_prefix,
            server.connection.http.url or server.connection.stdio.server,
            "everybody" if server.shared else "your tenant",
            str(len(server.tool_names)),
            server.problem or "followed",
        )
        for server in found.servers
    ]
    session.output.result(found, listing(("prefix", "server", "for", "tools#", "state"), rows))


async def _taken(
    gateway: Gateway, asked: tool_adapter_service_pb2.FollowedMcpServer, names: set[str]
) -> tool_adapter_service_pb2.FollowedMcpServer:
    """The server once its tools are registered, or something is wrong, or it takes too long."""
    found = asked
    for _ in range(POLLS):
        for server in (await _all(gateway)).servers:
            found = server if server.id == asked.id else found
        if found.problem or names <= set(found.tool_names):
            break
        await asyncio.sleep(POLL_S)
    return found


async def _followed(
    gateway: Gateway, prefix: str, shared: bool
) -> tool_adapter_service_pb2.FollowedMcpServer | None:
    for server in (await _all(gateway)).servers:
        if (server.name_prefix, server.shared) == (prefix, shared):
            return server
    return None


async def _all(gateway: Gateway) -> tool_adapter_service_pb2.ListFollowedMcpServersResponse:
    return await gateway.all(PATH, tool_adapter_service_pb2.ListFollowedMcpServersResponse)
