import asyncio
import socket
from collections.abc import Iterator
from threading import Event

import pytest

from tool_adapters import host_names
from tool_adapters.host_names import LOOKUPS_MAX, LOOKUPS_PER_TENANT_MAX, HostNames


class NameServer:
    """Names that end in .slow wait until they are answered; all others are loopback."""

    def __init__(self) -> None:
        self.answered = Event()
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, **_: object) -> list[host_names.AddressInfo]:
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
    monkeypatch.setattr(host_names, "LOOKUP_TIMEOUT_S", 0.05)
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
