"""The addresses that a tool may connect to: a tenant's tool only public ones.

Without this a tenant could register http://169.254.169.254/ or a service of the cluster and
read it through the platform (server-side request forgery). What is checked is the address of
the connection that is made, so a name that resolves to something else later gains nothing.
"""

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from podium_kit.limits.concurrency import FairSemaphore
from tool_adapters.models import ToolDefinition

LOOKUPS_MAX = 64
LOOKUPS_PER_TENANT_MAX = 8
LOOKUP_TIMEOUT_S = 10.0
TOO_SLOW = f"its name was not resolved within {LOOKUP_TIMEOUT_S:g} s"
AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]
MESSAGE = (
    "the address is not public, and a tenant's tool may not reach it; a platform admin can "
    "register the tool as shared, or allow the host: `podium up --allow-host HOST`, in a cluster "
    "tenant/host in TOOL_ADAPTERS_ALLOWED_HOSTS"
)
# What is not public, by the registries of special-purpose addresses of IANA (IPv4 and IPv6), not by
# the table of this Python. The chart's endpoints.internet.except is the same list.
NOT_PUBLIC = (
    "0.0.0.0/8",  # this network
    "10.0.0.0/8",  # private use
    "100.64.0.0/10",  # shared by carriers; Alibaba's metadata
    "127.0.0.0/8",  # loopback
    "161.26.0.0/16",  # IBM Cloud's own services
    "166.8.0.0/14",  # IBM Cloud's service endpoints
    "168.63.129.16/32",  # Azure's WireServer
    "169.254.0.0/16",  # link-local; metadata of clouds
    "172.16.0.0/12",  # private use
    "192.0.0.0/24",  # protocol assignments; Oracle's metadata
    "192.0.2.0/24",  # documentation
    "192.31.196.0/24",  # AS112
    "192.52.193.0/24",  # AMT
    "192.88.99.0/24",  # 6to4 relays
    "192.168.0.0/16",  # private use
    "192.175.48.0/24",  # AS112
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved; broadcast
    # Global unicast is 2000::/3 alone. Outside are loopback, addresses with an IPv4 one inside
    # (mapped, translated, NAT64), discard-only, SRv6, unique, link- and site-local, multicast.
    "::/3",
    "4000::/2",
    "8000::/1",
    "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID and others
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4
    "2620:4f:8000::/48",  # AS112
    "3fff::/20",  # documentation
)


class HostNames:
    """Lookups of all tenants; nothing that one found is answered to another.

    A name server may take half a minute for a name, or never answer, and a lookup that began cannot
    be stopped. So lookups have threads of their own, of which one tenant gets a few: its slow names
    delay its own calls.
    """

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


_NOT_PUBLIC = tuple(map(ipaddress.ip_network, NOT_PUBLIC))
# IPv4-mapped (RFC 4291) and NAT64's (RFC 6052): the IPv4 address inside is what is reached.
_ENDING_IN_IPV4 = tuple(map(ipaddress.IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96")))


class ForbiddenAddress(OSError):
    def __init__(self) -> None:
        super().__init__(errno.EACCES, MESSAGE)


class NetworkGuard:
    """The operator's decision about private addresses, and the names that are resolved.

    An allowed host is "tenant/host" for one tenant, or "host" for all of them.
    """

    def __init__(self, allowed_hosts: Iterable[str] = (), allow_private: bool = False) -> None:
        entries = (entry.rpartition("/") for entry in allowed_hosts)
        self._allowed = {(tenant, host.lower()) for tenant, _, host in entries}
        self._allow_private = allow_private
        self.names = HostNames()

    def trusts(self, tenant: str, tool: ToolDefinition | None, host: str) -> bool:
        if self._allow_private or (tool is not None and tool.shared):
            return True
        return bool(self._allowed & {("", host.lower()), (tenant, host.lower())})


def require_public(address: str) -> None:
    """Raises ForbiddenAddress for what is no public unicast address."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if any(parsed in network for network in _ENDING_IN_IPV4):
        parsed = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
    if any(parsed in network for network in _NOT_PUBLIC):
        raise ForbiddenAddress


def guarded_socket(address_info: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """A socket for that address. Raises ForbiddenAddress before anything is sent."""
    family, kind, protocol, _, address = address_info
    require_public(str(address[0]))
    return socket.socket(family, kind, protocol)
