"""Connects to MCP servers with the SDK, which is imported by the first one that is opened."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from os import SEEK_END
from tempfile import TemporaryFile
from typing import IO

from mcp import Client
from mcp.client.session import MessageHandlerFnT
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult

from podium_kit.failures import FailureKind
from tool_adapters.adapter import CallFailed
from tool_adapters.http.client import host_of
from tool_adapters.mcp.definitions import McpDefinitions
from tool_adapters.mcp.guard import mcp_http_client
from tool_adapters.mcp.program import start_program
from tool_adapters.mcp.servers import ServerOwner
from tool_adapters.mcp.statuses import LastReply
from tool_adapters.mcp.stdio import MESSAGE_BYTES_MAX, stdio_streams
from tool_adapters.models import McpHttp, McpStdio
from tool_adapters.network_guard import ForbiddenAddress, NetworkGuard
from tool_adapters.secret_store import SecretStore, for_header

STDERR_SHOWN = 500


@asynccontextmanager
async def connected(
    server: McpHttp,
    owner: ServerOwner,
    secrets: SecretStore,
    guard: NetworkGuard,
    on_message: MessageHandlerFnT | None,
) -> AsyncIterator[Client]:
    host = host_of(server.url)
    headers = dict(server.headers)
    for header in server.secret_headers:
        value = await secrets.value(owner.secrets, header.secret, host)
        headers[header.header] = header.prefix + for_header(header.secret, value)
    trusted = owner.shared or guard.trusts(owner.tenant, None, host)
    last = LastReply()
    try:
        names = guard.names
        async with mcp_http_client(names, owner.tenant, headers, trusted=trusted) as http_client:
            transport = streamable_http_client(
                server.url, http_client=http_client, max_sse_event_size=MESSAGE_BYTES_MAX
            )
            async with Client(transport, cache=None, message_handler=on_message) as client:
                _accept_results(client)
                yield client
    except Exception as error:
        raise _not_reached(host, _first_cause(error), last) from error


@asynccontextmanager
async def started(
    server: McpStdio,
    secrets_owner: str,
    secrets: SecretStore,
    definitions: McpDefinitions,
    on_message: MessageHandlerFnT | None,
) -> AsyncIterator[Client]:
    definition = definitions.get(server.server)
    secret_env = {
        variable: await secrets.value(secrets_owner, name)
        for variable, name in definition.secret_env.items()
    }
    with TemporaryFile() as errors:
        streams = stdio_streams(partial(start_program, definition, secret_env, errors))
        try:
            async with Client(streams, cache=None, message_handler=on_message) as client:
                _accept_results(client)
                yield client
        except Exception as error:
            raise _not_started(server, errors, _first_cause(error)) from error


def _accept_results(client: Client) -> None:
    """After a call it would ask for the list, whose failure is not the call's."""
    vars(client.session)["validate_tool_result"] = _not_validated


async def _not_validated(_name: str, _result: CallToolResult) -> None: ...


def _first_cause(error: BaseException) -> BaseException:
    """The SDK wraps what happened in groups of its task groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _not_started(server: McpStdio, errors: IO[bytes], cause: BaseException) -> CallFailed:
    if isinstance(cause, CallFailed):
        return cause
    errors.seek(max(0, errors.seek(0, SEEK_END) - STDERR_SHOWN))
    printed = errors.read().decode(errors="replace").strip() or str(cause)
    return CallFailed(FailureKind.UNAVAILABLE, f"the MCP server {server.server} failed: {printed}")


def _not_reached(host: str, cause: BaseException, last: LastReply) -> CallFailed:
    if isinstance(cause, ForbiddenAddress):
        return CallFailed(FailureKind.PERMISSION_DENIED, f"{host}: {cause.strerror}")
    if isinstance(cause, MCPError) and (rejected := last.failure(cause)):
        message = f"the MCP server at {host} does not open a session: {rejected.message}"
        return CallFailed.of(replace(rejected, message=message))
    message = f"the MCP server at {host} cannot be reached: {cause}"
    return CallFailed(FailureKind.UNAVAILABLE, message, retryable=True)
