"""HTTP/1.1 whose headers have a largest size and a longest time to arrive.

The parser has neither: a connection that sends nothing, or headers without an end, would be kept,
and so would all of what it sent, before anybody is asked who is calling.
"""

import asyncio
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

KIB = 1024


class BoundedHttp(HttpToolsProtocol):
    header_timeout_s = 60.0
    header_bytes_max = 64 * KIB

    _clock: asyncio.TimerHandle | None = None
    _header_bytes = 0
    # Of a request that may have been answered before it was read.
    _in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Paths may hold prompts and keys. uvicorn's own setting does not bind when another
        # server of the process, or a test's capture, has given its logger a handler.
        self.access_log = False
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._in_body and (self.cycle is None or self.cycle.response_complete):
            # An idle connection may also say something that begins no request.
            self._start_clock()
        self._header_bytes += len(data)
        super().data_received(data)
        if self._clock is not None and self._header_bytes > self.header_bytes_max:
            self._reject(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        self._stop_clock()
        self._in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    def _start_clock(self) -> None:
        if self._clock is None:
            self._header_bytes = 0
            self._clock = self.loop.call_later(
                self.header_timeout_s, self._reject, HTTPStatus.REQUEST_TIMEOUT
            )

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _reject(self, status: HTTPStatus) -> None:
        self._stop_clock()
        if self.transport.is_closing():
            return
        line = f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        self.transport.write(f"{line}connection: close\r\ncontent-length: 0\r\n\r\n".encode())
        self.transport.close()
