import ipaddress

import pytest

from tool_adapters.network_guard import ForbiddenAddress, NetworkGuard, require_public

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
