"""The MCP SDK's HTTP client, held to the same addresses as every other tool."""

import codecs
import math
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from typing import Any

import httpcore2
import httpx2
from mcp.client import streamable_http

from podium_kit.limits.json_cost import CostlyJson
from tool_adapters.http.client import CONNECT_TIMEOUT_S
from tool_adapters.mcp.messages import read_message
from tool_adapters.mcp.statuses import note_reply
from tool_adapters.mcp.stdio import MESSAGE_BYTES_MAX, TOO_LARGE
from tool_adapters.network_guard import HostNames, require_public

# A server may hold a stream open for as long as a call takes; the service limits calls.
READ_TIMEOUT_S = 3600.0
# Of one session; a request that gets none in time ends it.
CONNECTIONS_MAX = 100
IDENTITY = "identity"
PACKED = "the message is packed, which was not asked for"


class _Backend(httpcore2.AsyncNetworkBackend):
    """Resolves a name among the tenant's, checks its addresses unless trusted, and connects."""

    def __init__(self, names: HostNames, tenant: str, *, trusted: bool) -> None:
        self._backend = httpcore2.AnyIOBackend()
        self._names = names
        self._tenant = tenant
        self._trusted = trusted

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (the interface's)
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        found = await self._names.addresses(self._tenant, host, port)
        *others, last = dict.fromkeys(str(entry[4][0]) for entry in found)
        if not self._trusted:
            for address in (*others, last):
                require_public(address)
        connect = self._backend.connect_tcp
        for address in others:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await connect(address, port, timeout, local_address, socket_options)
        return await connect(last, port, timeout, local_address, socket_options)


class _Reply(httpx2.AsyncByteStream):
    """A reply without a byte-order mark; one that is larger than its limit breaks off with these
    words."""

    def __init__(self, stream: httpx2.AsyncByteStream, bytes_max: float, words: str) -> None:
        self._stream = stream
        self._bytes_max = bytes_max
        self._words = words

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size_bytes = 0
        begun, beginning = False, b""
        async for chunk in self._stream:
            size_bytes += len(chunk)
            if size_bytes > self._bytes_max:
                raise httpx2.StreamError(self._words)
            if begun:
                yield chunk
                continue
            beginning += chunk
            if len(beginning) >= len(codecs.BOM_UTF8) or not codecs.BOM_UTF8.startswith(beginning):
                begun = True
                yield beginning.removeprefix(codecs.BOM_UTF8)
        if not begun:
            yield beginning

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    def __init__(self, backend: _Backend) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=CONNECTIONS_MAX,
            network_backend=backend,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        # Others are streams of announcements, which a server need not have.
        if request.method == "POST":
            note_reply(response)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        stream, bytes_max, words = response.stream, float(MESSAGE_BYTES_MAX), TOO_LARGE
        if response.headers.get("content-encoding", IDENTITY).lower() != IDENTITY:
            # What it unpacks to may be a thousand times as large.
            bytes_max, words = 0, PACKED
        elif response.headers.get("content-type", "").startswith("text/event-stream"):
            # The SDK limits each event of a stream by itself.
            bytes_max = math.inf
        response.stream = _Reply(stream, bytes_max, words)
        return response


class _BoundedMessages:
    """The part of the SDK's parser that its HTTP client uses."""

    @staticmethod
    def validate_json(message: str | bytes, *, by_name: bool) -> Any:
        """Raises StreamError for more values than a message may have."""
        try:
            return read_message(message, by_name=by_name)
        except CostlyJson as error:
            raise httpx2.StreamError(f"{TOO_LARGE}: it {error}") from error


if "jsonrpc_message_adapter" not in vars(streamable_http):
    raise ImportError("the MCP SDK reads messages in another way than by jsonrpc_message_adapter")
# The SDK takes no other parser, and reads events of a stream by itself.
vars(streamable_http)["jsonrpc_message_adapter"] = _BoundedMessages


def mcp_http_client(
    names: HostNames, tenant: str, headers: Mapping[str, str], *, trusted: bool
) -> httpx2.AsyncClient:
    """Unless the server is trusted, only public addresses are reached."""
    transport = _Transport(_Backend(names, tenant, trusted=trusted))
    return httpx2.AsyncClient(
        transport=transport,
        headers={**headers, "accept-encoding": IDENTITY},
        timeout=httpx2.Timeout(CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
        trust_env=False,
    )
