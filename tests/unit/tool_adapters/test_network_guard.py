"""Which addresses a tenant's tool may connect to."""

import pytest

from tool_adapters.network_guard import ForbiddenAddress, NetworkGuard, require_public

PRIVATE = (
    *("127.0.0.1", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("0.0.0.0", "255.255.255.255", "224.0.0.1", "::1", "::", "fe80::1%eth0", "fd00::1"),
    *("::ffff:10.0.0.1", "2002:7f00:1::", "ff02::1", "64:ff9b::7f00:1", "::127.0.0.1"),
)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_rejected(address: str) -> None:
    with pytest.raises(ForbiddenAddress):
        require_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_public_addresses_are_allowed(address: str) -> None:
    require_public(address)


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
