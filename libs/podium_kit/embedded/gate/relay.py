import asyncio
from typing import cast

from podium_kit.embedded.ports import LOOPBACK


class Side(asyncio.Protocol):
    """One of two connections that end together; what it reads, the other writes."""

    transport: asyncio.Transport

    def __init__(self, other: "Side | None" = None) -> None:
        self.other = other

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()


class Client(Side):
    def __init__(self, port: int, connecting: set[asyncio.Task[None]]) -> None:
        super().__init__()
        self._port = port
        self._connecting = connecting

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.pause_reading()
        task = asyncio.get_running_loop().create_task(self._connect())
        # The loop itself does not keep it.
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, server = await loop.create_connection(lambda: Side(self), LOOPBACK, self._port)
        except OSError:
            self.transport.abort()
            return
        self.other = server
        if self.transport.is_closing():
            server.transport.close()
        else:
            self.transport.resume_reading()
