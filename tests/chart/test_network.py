from ipaddress import IPv6Network, ip_network

import pytest
from helm_python import HelmError

from chart.pods import pod_templates
from chart.rendering import Json, merged, of_kind, profile, render, rendered

DNS_OF_OPENSHIFT: Json = {
    "networkPolicy": {
        "dns": [
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}}}
        ],
        "dnsPorts": [5353],
    }
}


def policy(objects: list[Json], name: str) -> Json:
    [found] = [one for one in of_kind(objects, "NetworkPolicy") if one["metadata"]["name"] == name]
    spec: Json = found["spec"]
    return spec


def callers(objects: list[Json], component: str) -> list[Json]:
    ingress = policy(objects, f"podium-{component}")["ingress"]
    return [peer for rule in ingress for peer in rule.get("from", [])]


def test_labelled_pods_of_named_namespaces_reach_the_gateway_and_nothing_else() -> None:
    client = {"matchLabels": {"podium.dev/client": "true"}}
    objects = render({"networkPolicy": {"clientNamespaces": ["apps", "jobs"]}})
    names = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["apps", "jobs"]}
    elsewhere = {"namespaceSelector": {"matchExpressions": [names]}, "podSelector": client}
    assert elsewhere in callers(objects, "gateway")
    assert {"podSelector": client} in callers(objects, "gateway")
    reached = [
        one["metadata"]["name"]
        for one in of_kind(objects, "NetworkPolicy")
        if "podium.dev/client" in str(one["spec"])
    ]
    assert reached == ["podium-gateway"]


def test_no_other_namespace_reaches_the_gateway_unless_named() -> None:
    assert not [
        one for one in callers(rendered("defaults"), "gateway") if "namespaceSelector" in one
    ]


@pytest.mark.parametrize("switches", [{}, {"integrations": {"gatewayApi": {"enabled": True}}}])
def test_a_route_that_the_policy_would_close_is_rejected_with_the_line_to_add(
    switches: Json,
) -> None:
    values = merged({"ingress": {"enabled": True}}, switches)
    with pytest.raises(HelmError, match=r"add ingress.from: \[\{namespaceSelector:"):
        render(values)
    assert render(merged(values, {"networkPolicy": {"enabled": False}}))


@pytest.mark.parametrize("name", ["minimal-cpu", "production"])
def test_names_are_looked_up_where_the_values_say(name: str) -> None:
    objects = render(merged(profile(name), DNS_OF_OPENSHIFT))
    rules = [
        rule
        for one in of_kind(objects, "NetworkPolicy")
        for rule in one["spec"].get("egress", [])
        if rule.get("to") == DNS_OF_OPENSHIFT["networkPolicy"]["dns"]
    ]
    assert rules
    both = [{"protocol": each, "port": 5353} for each in ("UDP", "TCP")]
    assert all(rule["ports"] == both for rule in rules)
    assert '"port": 53}' not in str(objects).replace("'", '"')


def test_a_tenants_namespace_looks_names_up_there_too() -> None:
    objects = render(merged({"tenant": "acme"}, DNS_OF_OPENSHIFT), "podium-tenant")
    ports = of_kind(objects, "NetworkPolicy")[0]["spec"]["egress"][0]["ports"]
    assert {each["port"] for each in ports} == {5353}


def test_the_internet_has_two_families_and_each_its_own_exceptions() -> None:
    egress = policy(rendered("defaults"), "podium-tool-adapters")["egress"]
    blocks = [
        peer["ipBlock"] for rule in egress for peer in rule.get("to", []) if "ipBlock" in peer
    ]
    assert [block["cidr"] for block in blocks] == ["0.0.0.0/0", "::/0"]
    assert not [cidr for cidr in blocks[0]["except"] if ":" in cidr]
    excepted = [ip_network(cidr) for cidr in blocks[1]["except"]]
    unique_local = IPv6Network("fc00::/7")
    assert any(isinstance(each, IPv6Network) and unique_local.subnet_of(each) for each in excepted)
    assert "10.0.0.0/8" in blocks[0]["except"]


def test_dual_stack_asks_for_both_families() -> None:
    objects = render({"dualStack": True})
    components = [
        one for one in of_kind(objects, "Service") if "gateway" in one["metadata"]["name"]
    ]
    assert components
    assert all(one["spec"]["ipFamilyPolicy"] == "PreferDualStack" for one in components)
    assert "ipFamilyPolicy" not in str(of_kind(rendered("defaults"), "Service"))


@pytest.mark.parametrize("name", ["minimal-cpu", "production"])
def test_no_user_is_fixed_where_the_cluster_chooses(name: str) -> None:
    free = merged(profile(name), {"podSecurity": {"user": None, "group": None}})
    contexts = [pod.spec["securityContext"] for pod in pod_templates(render(free))]
    assert contexts
    fixed = {"runAsUser", "runAsGroup", "fsGroup"}
    assert not [one for one in contexts if fixed & set(one)]
    assert all(one["runAsNonRoot"] for one in contexts)


def test_the_log_of_a_test_is_there_when_the_test_has_ended() -> None:
    policies = {
        one["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
        for one in of_kind(rendered("defaults"), "Pod")
    }
    assert policies == {"before-hook-creation"}
