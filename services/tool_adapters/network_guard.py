"""Which addresses a tool may connect to: a tenant's tool only public ones.

Without this a tenant could register http://169.254.169.254/ or a service of the cluster and
read it through the platform (server-side request forgery). What is checked is the address of
the connection that is made, so a name that resolves to something else later gains nothing.
"""

import errno
import ipaddress
import socket
from collections.abc import Iterable

from tool_adapters.models import ToolDefinition

MESSAGE = (
    "the address is not public, and a tenant's tool may not reach it; a platform admin can "
    "register the tool as shared, or add tenant/host to TOOL_ADAPTERS_ALLOWED_HOSTS"
)
# IPv4-compatible and IPv4-mapped addresses (RFC 4291), and NAT64's (RFC 6052).
ENDING_IN_IPV4 = tuple(map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0/96", "64:ff9b::/96")))


class ForbiddenAddress(OSError):
    """A connection to an address a tenant's tool may not reach."""

    def __init__(self) -> None:
        super().__init__(errno.EACCES, MESSAGE)


class NetworkGuard:
    """The operator's decision about private addresses.

    An allowed host is "tenant/host" for one tenant, or "host" for all of them.
    """

    def __init__(self, allowed_hosts: Iterable[str] = (), allow_private: bool = False) -> None:
        entries = (entry.rpartition("/") for entry in allowed_hosts)
        self._allowed = {(tenant, host.lower()) for tenant, _, host in entries}
        self._allow_private = allow_private

    def trusts(self, tenant: str, tool: ToolDefinition | None, host: str) -> bool:
        """Whether a connection of the tenant to the host needs no check of its address."""
        if self._allow_private or (tool is not None and tool.shared):
            return True
        return bool(self._allowed & {("", host.lower()), (tenant, host.lower())})


def require_public(address: str) -> None:
    """Raises ForbiddenAddress for a loopback, link-local, private or reserved IP address."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        # The IPv4 address inside decides: both forms reach it.
        parsed = _ipv4_inside(parsed) or parsed
    if not parsed.is_global or parsed.is_multicast:
        raise ForbiddenAddress


def _ipv4_inside(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if any(address in network for network in ENDING_IN_IPV4):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour


def guarded_socket(address_info: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """A socket for that address. Raises ForbiddenAddress before anything is sent."""
    family, kind, protocol, _, address = address_info
    require_public(str(address[0]))
    return socket.socket(family, kind, protocol)
