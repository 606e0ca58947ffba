"""A channel that continues under a renewed certificate.

gRPC reads a client's certificate once per channel. So new calls go over a fresh channel when the
files have changed, and the old one is closed when no call can still be running on it.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc

from podium_kit.rpc.tls import KeyMaterial, RenewedFiles

# Servers end a connection after its maximum age and grace (rpc/server.py); no call lasts longer.
RETIREMENT_S = 900.0


class RenewingChannel(grpc.aio.Channel):
    def __init__(
        self, renewals: RenewedFiles, connect: Callable[[KeyMaterial], grpc.aio.Channel]
    ) -> None:
        self._renewals = renewals
        self._connect = connect
        self._current = connect(renewals.first)
        self._retiring: set[asyncio.Task[None]] = set()

    def current(self) -> grpc.aio.Channel:
        if material := self._renewals.renewed():
            old, self._current = self._current, self._connect(material)
            retirement = asyncio.create_task(_retire(old))
            self._retiring.add(retirement)
            retirement.add_done_callback(self._retiring.discard)
        return self._current

    def unary_unary(self, *args: Any, **options: Any) -> Any:
        return _Renewing(self, "unary_unary", args, options)

    def unary_stream(self, *args: Any, **options: Any) -> Any:
        return _Renewing(self, "unary_stream", args, options)

    def stream_unary(self, *args: Any, **options: Any) -> Any:
        return _Renewing(self, "stream_unary", args, options)

    def stream_stream(self, *args: Any, **options: Any) -> Any:
        return _Renewing(self, "stream_stream", args, options)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self.current().get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._current.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self.current().channel_ready()

    async def close(self, grace: float | None = None) -> None:
        for retirement in self._retiring:
            retirement.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        await self._current.close(grace)

    async def __aenter__(self) -> "RenewingChannel":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close(None)


async def _retire(channel: grpc.aio.Channel) -> None:
    try:
        # Not `close(grace)`: it fails calls whose interceptors are not done yet.
        await asyncio.sleep(RETIREMENT_S)
    finally:
        await channel.close(None)


class _Renewing:
    """One method, as stubs keep it: made again when the channel was."""

    def __init__(
        self, owner: RenewingChannel, shape: str, args: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        self._owner = owner
        self._shape = shape
        self._args = args
        self._options = options
        self._channel: grpc.aio.Channel | None = None

    def __call__(self, *args: Any, **options: Any) -> Any:
        channel = self._owner.current()
        if channel is not self._channel:
            make = getattr(channel, self._shape)
            self._method, self._channel = make(*self._args, **self._options), channel
        return self._method(*args, **options)
