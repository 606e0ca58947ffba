"""Addresses of the hosts that tools name.

A name server may take half a minute for a name, or never answer, and a lookup that began cannot be
stopped. So lookups have threads of their own, of which one tenant gets a few: its slow names delay
its own calls.
"""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from podium_kit.limits.concurrency import FairSemaphore

LOOKUPS_MAX = 64
LOOKUPS_PER_TENANT_MAX = 8
LOOKUP_TIMEOUT_S = 10.0
TOO_SLOW = f"its name was not resolved within {LOOKUP_TIMEOUT_S:g} s"
AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]


class HostNames:
    """Lookups of all tenants; nothing that one found is answered to another."""

    def __init__(self) -> None:
        self._places = FairSemaphore(LOOKUPS_MAX, LOOKUPS_PER_TENANT_MAX)
        self._threads = ThreadPoolExecutor(LOOKUPS_MAX, "host-names")

    async def addresses(self, tenant: str, host: str, port: int) -> Sequence[AddressInfo]:
        """Addresses as of socket.getaddrinfo, for TCP. Raises OSError, within LOOKUP_TIMEOUT_S."""
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT_S):
                await self._places.acquire(tenant)
                return await asyncio.shield(self._lookup(tenant, host, port))
        except TimeoutError as error:
            raise socket.gaierror(socket.EAI_AGAIN, TOO_SLOW) from error

    def _lookup(self, tenant: str, host: str, port: int) -> "asyncio.Future[Sequence[AddressInfo]]":
        """Holds the place until its thread is free, which may be after its caller gave up."""
        lookup = asyncio.get_running_loop().run_in_executor(self._threads, _resolved, host, port)

        def end(ended: "asyncio.Future[Sequence[AddressInfo]]") -> None:
            self._places.release(tenant)
            if not ended.cancelled():
                # Marks it retrieved, also where its caller gave up.
                ended.exception()

        lookup.add_done_callback(end)
        return lookup


def _resolved(host: str, port: int) -> Sequence[AddressInfo]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        # A label that is empty or too long.
        raise socket.gaierror(socket.EAI_NONAME, "it is no name of a host") from error
