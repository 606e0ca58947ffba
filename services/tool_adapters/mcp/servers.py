"""Opens MCP clients: starts a server as a process, or connects to one by streamable HTTP."""

import os
import shutil
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from mcp import Client
from mcp.client.session import MessageHandlerFnT
from mcp.client.streamable_http import streamable_http_client

from podium_kit.failures import FailureKind
from tool_adapters.adapter import CallFailed
from tool_adapters.errors import CommandNotAllowed
from tool_adapters.http.client import host_of
from tool_adapters.mcp.guard import mcp_http_client
from tool_adapters.mcp.stdio import MESSAGE_BYTES_MAX, Program, stdio_streams
from tool_adapters.models import McpHttp, McpStdio
from tool_adapters.network_guard import ForbiddenAddress, NetworkGuard
from tool_adapters.secret_store import PLATFORM, SecretStore

STDERR_SHOWN = 500


@dataclass(frozen=True)
class ServerOwner:
    """Whose server it is: a tenant's, or the platform's when the tool is shared."""

    tenant: str
    shared: bool

    @property
    def secrets(self) -> str:
        """Owner of the secrets it may use."""
        return PLATFORM if self.shared else self.tenant


class McpServers:
    """Knows how to reach servers; every opened client is the caller's to close."""

    def __init__(
        self, secrets: SecretStore, guard: NetworkGuard, commands: Collection[str] = ()
    ) -> None:
        self._secrets = secrets
        self._guard = guard
        self._commands = frozenset(commands)

    def require_allowed(self, server: McpStdio | McpHttp, owner: ServerOwner) -> None:
        """Raises CommandNotAllowed: a program runs with the rights of this process."""
        if isinstance(server, McpHttp) or owner.shared or server.command in self._commands:
            return
        raise CommandNotAllowed(server.command)

    @asynccontextmanager
    async def opened(
        self, server: McpStdio | McpHttp, owner: ServerOwner, hear: MessageHandlerFnT | None = None
    ) -> AsyncIterator[Client]:
        """A connected client. Raises CallFailed when the server does not come up, or breaks.

        `hear` gets every message of the server that is no answer.
        """
        self.require_allowed(server, owner)
        opened = self._process if isinstance(server, McpStdio) else self._http
        raised: Exception | None = None
        try:
            async with opened(server, owner, hear) as client:  # type: ignore[arg-type]
                try:
                    yield client
                except Exception as error:
                    raised = error
                    raise
        except CallFailed:
            # What the block raised is no fault of the connection.
            if raised is not None:
                raise raised from None
            raise

    @asynccontextmanager
    async def _http(
        self, server: McpHttp, owner: ServerOwner, hear: MessageHandlerFnT | None
    ) -> AsyncIterator[Client]:
        token = self._secrets.value(owner.secrets, server.secret) if server.secret else ""
        trusted = owner.shared or self._guard.trusts(None, host_of(server.url))
        try:
            async with mcp_http_client(token, trusted=trusted) as http_client:
                transport = streamable_http_client(
                    server.url, http_client=http_client, max_sse_event_size=MESSAGE_BYTES_MAX
                )
                async with Client(transport, cache=None, message_handler=hear) as client:
                    yield client
        except Exception as error:
            raise _not_reached(host_of(server.url), _first_cause(error)) from error

    @asynccontextmanager
    async def _process(
        self, server: McpStdio, owner: ServerOwner, hear: MessageHandlerFnT | None
    ) -> AsyncIterator[Client]:
        secret_env = {
            variable: self._secrets.value(owner.secrets, name)
            for variable, name in server.secret_env.items()
        }
        # A folder of its own: what a server writes is seen by no other session.
        with TemporaryDirectory(prefix="podium-mcp-", ignore_cleanup_errors=True) as folder:
            stderr = Path(folder) / "stderr.log"
            program = _program(server, folder, dict(server.env) | secret_env)
            try:
                with stderr.open("wb") as errors:
                    streams = stdio_streams(program, errors)
                    async with Client(streams, cache=None, message_handler=hear) as client:
                        yield client
            except Exception as error:
                raise _not_started(server, stderr, _first_cause(error)) from error


def _program(server: McpStdio, folder: str, env: dict[str, str]) -> Program:
    """Of our environment it gets the path alone: our credentials stay here."""
    # Programs installed beside our Python are found without an activated environment.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    command = shutil.which(server.command, path=path)
    if command is None:
        message = f"the MCP server's program {server.command} is not installed here"
        raise CallFailed(FailureKind.UNAVAILABLE, message)
    own = {"PATH": path, "HOME": folder, "TMPDIR": folder}
    return Program(command, server.args, own | env, folder)


def _first_cause(error: BaseException) -> BaseException:
    """The SDK wraps what happened in groups of its task groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _not_started(server: McpStdio, stderr: Path, cause: BaseException) -> CallFailed:
    said = stderr.read_text(errors="replace").strip()[-STDERR_SHOWN:] or str(cause)
    return CallFailed(FailureKind.UNAVAILABLE, f"the MCP server {server.command} failed: {said}")


def _not_reached(host: str, cause: BaseException) -> CallFailed:
    if isinstance(cause, ForbiddenAddress):
        return CallFailed(FailureKind.PERMISSION_DENIED, f"{host}: {cause.strerror}")
    message = f"the MCP server at {host} cannot be reached: {cause}"
    return CallFailed(FailureKind.UNAVAILABLE, message, retryable=True)
