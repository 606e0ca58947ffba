import asyncio
import ipaddress
import socket
from collections.abc import Iterator
from threading import Event

import pytest

from tool_adapters import network_guard
from tool_adapters.network_guard import (
    LOOKUPS_MAX,
    LOOKUPS_PER_TENANT_MAX,
    ForbiddenAddress,
    HostNames,
    NetworkGuard,
    require_public,
)

PRIVATE = (
    *("127.0.0.1", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("0.0.0.0", "255.255.255.255", "224.0.0.1", "::1", "::", "fe80::1%eth0", "fd00::1"),
    *("::ffff:10.0.0.1", "2002:7f00:1::", "ff02::1", "64:ff9b::7f00:1", "::127.0.0.1"),
    # Services inside of clouds.
    *("168.63.129.16", "192.0.0.192", "100.100.100.200", "169.254.170.2", "161.26.0.10"),
    *("fd00:ec2::254", "fd20:ce::254", "::ffff:168.63.129.16", "64:ff9b::a83f:8110"),
    # Other ways to write an IPv4 address into an IPv6 one.
    *("::ffff:0:10.0.0.1", "::ffff:0:8.8.8.8", "64:ff9b:1::a00:1", "64:ff9b:1::808:808"),
    *("2001:0:7f00:1::", "2002:808:808::", "::8.8.8.8"),
)
# The registries of IANA, by an address in each block.
SPECIAL = (
    *("0.1.2.3", "100.127.255.255", "192.0.0.8", "192.0.0.171", "192.0.2.1", "192.31.196.1"),
    *("192.52.193.1", "192.88.99.1", "192.175.48.1", "198.18.0.1", "198.19.255.255"),
    *("198.51.100.1", "203.0.113.1", "239.255.255.255", "240.0.0.1", "100::1", "100:0:0:1::1"),
    *("2001:2::1", "2001:3::1", "2001:4:112::1", "2001:10::1", "2001:20::1", "2001:30::1"),
    *("2001:db8::1", "2620:4f:8000::1", "3fff::1", "5f00::1", "fc00::1", "fec0::1", "feff::1"),
    *("4000::1", "8000::1", "fbff::1"),
)


@pytest.mark.parametrize("address", (*PRIVATE, *SPECIAL))
def test_private_addresses_are_rejected(address: str) -> None:
    with pytest.raises(ForbiddenAddress):
        require_public(address)


@pytest.mark.parametrize(
    "address",
    ["93.184.216.34", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2a00::1"],
)
def test_public_addresses_are_allowed(address: str) -> None:
    require_public(address)


def test_what_this_python_knows_as_special_is_special() -> None:
    # By the first and last address of every block that `ipaddress` has.
    for family in (ipaddress.IPv4Address, ipaddress.IPv6Address):
        for block in vars(family)["_constants"]._private_networks:
            for address in (block[0], block[-1]):
                if not address.is_global:
                    with pytest.raises(ForbiddenAddress):
                        require_public(str(address))


def test_the_operator_may_allow_a_host_or_every_host() -> None:
    assert NetworkGuard(["vllm.internal"]).trusts("acme", None, "VLLM.internal")
    assert not NetworkGuard(["vllm.internal"]).trusts("acme", None, "vllm.internal.evil.example")
    assert NetworkGuard(allow_private=True).trusts("acme", None, "10.0.0.1")


def test_a_host_of_one_tenant_is_no_other_tenants() -> None:
    guard = NetworkGuard(["acme/erp.internal", "a/b/10.0.0.1"])
    assert guard.trusts("acme", None, "ERP.internal")
    assert guard.trusts("a/b", None, "10.0.0.1")
    for tenant, host in (("globex", "erp.internal"), ("ACME", "erp.internal"), ("a", "10.0.0.1")):
        assert not guard.trusts(tenant, None, host)
    assert not guard.trusts("globex", None, "acme/erp.internal")


class NameServer:
    """Names that end in .slow wait until they are answered; all others are loopback."""

    def __init__(self) -> None:
        self.answered = Event()
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, **_: object) -> list[network_guard.AddressInfo]:
        self.asked.append(host)
        if host.endswith(".slow"):
            self.answered.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", server)
    yield server
    server.answered.set()


async def test_a_flood_of_slow_names_delays_its_own_tenant_alone(names: NameServer) -> None:
    hosts = HostNames()
    flood = [
        asyncio.create_task(hosts.addresses("evil", f"{number}.slow", 443)) for number in range(200)
    ]
    while len(names.asked) < LOOKUPS_PER_TENANT_MAX:
        await asyncio.sleep(0)
    found = await hosts.addresses("bank", "api.bank.example", 443)
    assert [entry[4] for entry in found] == [("127.0.0.1", 443)]
    assert len(names.asked) == LOOKUPS_PER_TENANT_MAX + 1
    for lookup in flood:
        lookup.cancel()
    await asyncio.wait(flood)


async def test_the_name_another_tenant_waits_for_is_looked_up_anew(names: NameServer) -> None:
    hosts = HostNames()
    first = [
        asyncio.create_task(hosts.addresses(tenant, "shared.slow", 443))
        for tenant in ("evil", "bank")
    ]
    while len(names.asked) < len(first):
        await asyncio.sleep(0)
    assert names.asked == ["shared.slow", "shared.slow"]
    names.answered.set()
    await asyncio.gather(*first)


async def test_who_gave_up_keeps_its_place_until_the_name_server_answers(
    names: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_guard, "LOOKUP_TIMEOUT_S", 0.05)
    hosts = HostNames()
    for number in range(LOOKUPS_PER_TENANT_MAX):
        with pytest.raises(OSError, match="was not resolved"):
            await hosts.addresses("evil", f"{number}.slow", 443)
    with pytest.raises(OSError, match="was not resolved"):
        await hosts.addresses("evil", "next.example", 443)
    assert "next.example" not in names.asked
    names.answered.set()
    monkeypatch.undo()
    assert await hosts.addresses("evil", "127.0.0.1", 443)


async def test_many_tenants_slow_names_leave_places() -> None:
    assert LOOKUPS_MAX >= 4 * LOOKUPS_PER_TENANT_MAX


async def test_what_is_no_name_is_an_error_like_any_other() -> None:
    for host in ("a..b", f"{'x' * 64}.example", "."):
        with pytest.raises(OSError):
            await HostNames().addresses("acme", host, 443)
