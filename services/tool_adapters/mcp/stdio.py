"""A process that speaks MCP over its standard streams (MCP specification, "Transports: stdio").

The SDK's own transport gathers a line of any length, and copies it again with every piece that
arrives: a server that writes 100 MB without a newline would stop everybody's calls. Here a line
has a limit; what the SDK does with messages stays the same.
"""

import asyncio
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from podium_kit.limits.json_cost import require_bounded_json
from tool_adapters.mcp.messages import read_message
from tool_adapters.sandbox.killing import kill_all

# Of one message, in a line or in an HTTP reply.
MESSAGE_BYTES_MAX = 16 * 1024 * 1024
TOO_LARGE = "the message is too large"
# How long a process gets to end by itself once its input is closed.
GRACE_S = 2.0

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]
Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


@asynccontextmanager
async def stdio_streams(start: Callable[[], Awaitable[Process]]) -> AsyncIterator[Streams]:
    """Messages from and to a process, which leads a group and ends with the block."""
    process = await _started(start)
    received, to_session = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    from_session, sent = anyio.create_memory_object_stream[SessionMessage](0)
    pump = _Pump(process)
    tasks = [
        asyncio.create_task(pump.read(received)),
        asyncio.create_task(pump.write(sent, received)),
    ]
    try:
        yield to_session, from_session
    finally:
        with anyio.CancelScope(shield=True):
            await _uninterrupted(asyncio.ensure_future(_end(process, tasks)))


async def _started(start: Callable[[], Awaitable[Process]]) -> Process:
    launching = asyncio.ensure_future(start())
    try:
        # Cancelled half-way, asyncio kills the launcher alone and waits for what it forked.
        return await asyncio.shield(launching)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await _uninterrupted(asyncio.ensure_future(_end(await launching, [])))
        raise


async def _uninterrupted(ending: asyncio.Future[None]) -> None:
    """Waits for it, which takes a bounded time; a cancellation counts after it."""
    cancelled: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled


class _Pump:
    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self._waiting: set[mcp_types.RequestId] = set()

    async def read(self, received: Incoming) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with received:
                with suppress(ConnectionError):
                    while line := await self._line(received):
                        await self._deliver(line, received)

    async def write(self, sent: Outgoing, received: Incoming) -> None:
        """Writes until the session ends; a process that does not read ends it."""
        try:
            async for session_message in sent:
                message = session_message.message
                if isinstance(message, mcp_types.JSONRPCRequest):
                    self._waiting.add(message.id)
                text = message.model_dump_json(by_alias=True, exclude_unset=True)
                self._stdin.write(f"{text}\n".encode())
                await self._stdin.drain()
        except OSError:
            await received.aclose()

    async def _line(self, received: Incoming) -> bytes:
        """The next line; b"" at the end, which a line over the limit is as well."""
        try:
            line = await self._stdout.readline()
            require_bounded_json(line)
            return line
        except ValueError:
            for request_id in list(self._waiting):
                error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=TOO_LARGE)
                reply = mcp_types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
                await received.send(SessionMessage(reply))
            return b""

    async def _deliver(self, line: bytes, received: Incoming) -> None:
        try:
            message = read_message(line)
        except ValueError as error:
            # Servers print other things, too; the session continues.
            await received.send(error)
            return
        if isinstance(message, mcp_types.JSONRPCResponse | mcp_types.JSONRPCError):
            self._waiting.discard(message.id)
        await received.send(SessionMessage(message))


async def _end(process: Process, tasks: list[asyncio.Task[None]]) -> None:
    """Closes the input, as the specification says, and kills what does not end by itself."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    # A process that waits to be read neither ends nor, for asyncio, has ended.
    drained = asyncio.create_task(_drain(process.stdout))
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE_S):
            await process.wait()
    await kill_all(process)
    await process.wait()
    drained.cancel()


async def _drain(stdout: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while await stdout.read(65536):
            pass
