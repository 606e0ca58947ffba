"""Relays between two processes, which can stop to pass anything on, as a parted network does.

Connections stay open and bytes are kept, as TCP keeps them: they arrive once the network is whole.
"""

import asyncio
from contextlib import suppress
from pathlib import Path

CHUNK_BYTES = 64 * 1024


class Relay:
    def __init__(self, *, port: int = 0, path: Path | None = None) -> None:
        self._port, self._path = port, path
        self._whole = asyncio.Event()
        self._whole.set()
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()

    async def listen(self, *, port: int = 0, path: Path | None = None) -> None:
        if path is not None:
            self._server = await asyncio.start_unix_server(self._serve, path)
        else:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)

    def part(self) -> None:
        self._whole.clear()

    def rejoin(self) -> None:
        self._whole.set()

    async def close(self) -> None:
        self.rejoin()
        if self._server is not None:
            self._server.close()
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._whole.wait()
        try:
            there, back = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        ways = [
            asyncio.create_task(self._pass(reader, back)),
            asyncio.create_task(self._pass(there, writer)),
        ]
        self._passing.update(ways)
        await asyncio.wait(ways)
        self._passing.difference_update(ways)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._path is not None:
            return await asyncio.open_unix_connection(self._path)
        return await asyncio.open_connection("127.0.0.1", self._port)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until either end closes, which closes both."""
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                await self._whole.wait()
                writer.write(data)
                await writer.drain()
        with suppress(OSError, RuntimeError):
            writer.close()
