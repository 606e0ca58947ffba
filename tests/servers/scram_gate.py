"""A gate that speaks Kafka's SASL exchange with SCRAM-SHA-512, before a broker that does not.

The embedded broker forgets its users when password authentication is enabled. This proxy does it
instead: a client that proves its password (RFC 5802, checked by scramp) reaches the broker.
Kafka's framing is https://kafka.apache.org/protocol#sasl_handshake.
"""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from scramp import ScramException, ScramMechanism
from scramp.core import ScramServer, ServerStage

MECHANISM = "SCRAM-SHA-512"
API_VERSIONS = 18
UNSUPPORTED_MECHANISM, AUTHENTICATION_FAILED = 33, 58
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class ScramGate:
    """Listens on `port`; who proves to be the one user is passed on to `upstream_port`."""

    user: str
    password: str
    upstream_port: int
    port: int = 0
    admitted: int = 0
    rejected: int = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["ScramGate"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker = await asyncio.open_connection("127.0.0.1", self.upstream_port)
        try:
            if await self._admitted((reader, writer), broker):
                await asyncio.gather(_pass(reader, broker[1]), _pass(broker[0], writer))
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()
            broker[1].close()

    async def _admitted(self, client: Streams, broker: Streams) -> bool:
        """Returns whether the client proved a password; before, it may only ask for versions."""
        reader, writer = client
        scram = ScramMechanism(MECHANISM).make_server(self._stored)
        while True:
            frame = await _frame(reader)
            key, version, number = struct.unpack_from(">hhi", frame)
            if key == API_VERSIONS:
                _send(broker[1], frame)
                _send(writer, await _frame(broker[0]))
            elif key == SaslHandshakeRequest.API_KEY:
                asked = SaslHandshakeRequest.decode(frame, version, header=True).mechanism
                error = 0 if asked == MECHANISM else UNSUPPORTED_MECHANISM
                handshake = SaslHandshakeResponse(error_code=error, mechanisms=[MECHANISM])
                _send(writer, _encoded(handshake, version, number))
            elif key == SaslAuthenticateRequest.API_KEY:
                said = SaslAuthenticateRequest.decode(frame, version, header=True).auth_bytes
                answer = self._answer(scram, bytes(said).decode())
                _send(writer, _encoded(answer, version, number))
                if answer.error_code or scram.stage is ServerStage.get_server_final:
                    return not answer.error_code
            else:
                return False

    def _answer(self, scram: ScramServer, said: str) -> Any:
        """Answers the first message by a challenge, the last by the server's own proof."""
        try:
            if scram.stage is None:
                scram.set_client_first(said)
                words = scram.get_server_first()
            else:
                scram.set_client_final(said)
                words = scram.get_server_final()
                self.admitted += 1
        except ScramException:
            self.rejected += 1
            return SaslAuthenticateResponse(error_code=AUTHENTICATION_FAILED)
        return SaslAuthenticateResponse(error_code=0, auth_bytes=words.encode())

    def _stored(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        if user != self.user:
            raise ScramException("unknown user")
        mechanism = ScramMechanism(MECHANISM)
        found: tuple[bytes, bytes, bytes, int] = mechanism.make_auth_info(self.password)
        return found


def _encoded(answer: Any, version: int, number: int) -> bytes:
    answer.API_VERSION = version
    answer.with_header(correlation_id=number)
    return bytes(answer.encode(header=True))


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def _send(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(64 * 1024):
            writer.write(chunk)
            await writer.drain()
    writer.close()
