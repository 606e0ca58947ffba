import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import make_url

from integration.misbehaviour.faults import Fault

SOCKET = ".s.PGSQL.5432"
CHUNK_BYTES = 65536


class DatabaseWire:
    """Forwards bytes both ways; with a `fault` the answers end, or do not come."""

    def __init__(self, server_socket: Path) -> None:
        self.fault: Fault | None = None
        self.database_url = ""
        self._server_socket = server_socket

    async def connected(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        server, requests = await asyncio.open_unix_connection(self._server_socket)
        forwarding = asyncio.create_task(_forward(client, requests))
        try:
            while answer := await server.read(CHUNK_BYTES):
                if not await self._pass_on(answer, answers):
                    break
        finally:
            forwarding.cancel()
            requests.transport.abort()
            answers.transport.abort()

    async def _pass_on(self, answer: bytes, answers: asyncio.StreamWriter) -> bool:
        match self.fault:
            case Fault.HANG:
                return True
            case Fault.HALF:
                answers.write(answer[: len(answer) // 2])
            case Fault.RESET:
                pass
            case _:
                answers.write(answer)
        await answers.drain()
        return self.fault is None


async def _forward(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(CHUNK_BYTES):
        target.write(data)
        await target.drain()
    target.write_eof()


@asynccontextmanager
async def database_wire(database_url: str) -> AsyncIterator[DatabaseWire]:
    url = make_url(database_url)
    wire = DatabaseWire(Path(str(url.query["host"]), SOCKET))
    with TemporaryDirectory(prefix="podium-wire-") as folder:
        path = Path(folder, SOCKET)
        wire.database_url = url.set(query={**url.query, "host": folder}).render_as_string(False)
        server = await asyncio.start_unix_server(wire.connected, path)
        yield wire
        server.close()
