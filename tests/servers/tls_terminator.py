"""A TLS terminator: asks clients for a certificate and passes the bytes on in plaintext.

The embedded broker and Temporal's development server speak no TLS. This stands in front of them,
as a load balancer or a listener of the real ones would.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from podium_kit.rpc.settings import TlsFiles

CHUNK = 64 * 1024


@dataclass
class TlsTerminator:
    """Listens on `port`; connections go to `upstream_port`, which may be set later."""

    files: TlsFiles
    upstream_port: int = 0
    # Application protocols; gRPC insists on "h2".
    protocols: Sequence[str] = ()
    port: int = 0
    certificates_asked: bool = True
    # Subjects of the clients that got through, for tests that ask who was there.
    seen: list[str] = field(default_factory=list)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["TlsTerminator"]:
        server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self._context(), limit=CHUNK
        )
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.drop_connections()
            await server.wait_closed()

    def drop_connections(self) -> None:
        for writer in tuple(self._open):
            writer.transport.abort()

    def stall_connections(self) -> None:
        """Reads nothing more from connections that are open, as if the pod were gone."""
        for writer in self._open:
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # of a socket

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH, cafile=str(self.files.authority)
        )
        context.verify_mode = ssl.CERT_REQUIRED if self.certificates_asked else ssl.CERT_NONE
        context.load_cert_chain(self.files.certificate, self.files.private_key)
        if self.protocols:
            context.set_alpn_protocols(list(self.protocols))
        return context

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if shown := writer.get_extra_info("peercert"):
            self.seen.append(dict(pair for (pair,) in shown["subject"])["commonName"])
        try:
            onward = await asyncio.open_connection("127.0.0.1", self.upstream_port, limit=CHUNK)
        except OSError:
            writer.transport.abort()
            return
        self._open.add(writer)
        try:
            await asyncio.gather(_pass(reader, onward[1]), _pass(onward[0], writer))
        finally:
            self._open.discard(writer)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()
