import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from ipaddress import IPv6Network, ip_network

import pytest
from helm_python import HelmError
from pydantic_settings import BaseSettings

import cost_ledger.config
import episodes.config
import gateway.config
import orchestrator_inference.config
import orchestrator_inference.policy_engines.config
import podium_training.rollouts.worker
import tool_adapters.config
import tool_adapters.sandbox.config
import tool_registry.config
from chart.pods import containers, pod_templates
from chart.rendering import (
    EVERYTHING,
    ROOT,
    Json,
    cases,
    chart,
    merged,
    of_kind,
    profile,
    render,
    rendered,
    switched_on,
)
from chart.test_values_schema import nested
from cluster.admitted import Outsider, admitting, outsiders
from tool_adapters.network_guard import NOT_PUBLIC

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


def test_every_outsider_of_the_evaluation_is_one_that_the_cluster_test_tries_from() -> None:
    values = profile("evaluation")
    for path, value in admitting("tried").items():
        values = merged(values, nested(path, value))
    admitted = {
        json.dumps(peer, sort_keys=True)
        for one in of_kind(render(values), "NetworkPolicy")
        for rule in one["spec"].get("ingress", [])
        for peer in rule.get("from", [])
        if "namespaceSelector" in peer
    }
    tried = outsiders("tried").values()
    assert not [peer for peer in admitted if not any(is_peer(json.loads(peer), o) for o in tried)]
    # KEDA's operator, the worker controller, the scraper, the ingress controller, clients.
    assert len(admitted) == 5


def is_peer(peer: Json, outsider: Outsider) -> bool:
    """Returns whether the outsider's pod is what the peer admits, with these labels alone."""
    labels = peer.get("podSelector", {}).get("matchLabels", {})
    chosen = peer["namespaceSelector"]
    names = [*chosen.get("matchLabels", {}).values()]
    names += [name for each in chosen.get("matchExpressions", []) for name in each["values"]]
    return labels == outsider.labels and (not names or outsider.namespace in names)


SETTINGS: dict[str, type[BaseSettings]] = {
    "gateway": gateway.config.GatewaySettings,
    "episodes": episodes.config.ServerConfig,
    "episode-worker": episodes.config.WorkerConfig,
    "orchestrator-inference": orchestrator_inference.config.OrchestratorInferenceSettings,
    "policy-engines": orchestrator_inference.policy_engines.config.PolicyEnginesSettings,
    "tool-registry": tool_registry.config.ToolRegistrySettings,
    "tool-adapters": tool_adapters.config.ToolAdaptersSettings,
    "sandbox": tool_adapters.sandbox.config.SandboxSettings,
    "rollout-worker": podium_training.rollouts.worker.WorkerSettings,
    "cost-ledger": cost_ledger.config.CostLedgerSettings,
}
# The service graph as the code has it: a component calls another where its settings name the
# other's target and its wiring opens a channel to it. Nothing here is copied from the chart.
# Where each component is wired.
WIRING = {
    "gateway": "services/gateway/clients.py",
    "episodes": "services/episodes/server.py",
    "episode-worker": "services/episodes/worker.py",
    "orchestrator-inference": "services/orchestrator_inference/server.py",
    "policy-engines": "services/orchestrator_inference/policy_engines/worker.py",
    "tool-registry": "services/tool_registry/server.py",
    "tool-adapters": "services/tool_adapters/server.py",
    "sandbox": "services/tool_adapters/sandbox/server.py",
    "rollout-worker": "training/podium_training/rollouts/worker.py",
    "cost-ledger": "services/cost_ledger/server.py",
}
# A setting of this name says where something outside of the release is.
OUTSIDE_BY_SETTING = {
    "database_url": "postgres",
    "temporal_target": "temporal",
    "kafka": "kafka",
    "engine_base_url": "model-server",
    "merged_engine_urls": "policy-engine",
    # Copies of a service of KServe are made through the API server.
    "blueprint": "kubernetes",
    # Tenants' tools are anywhere: a guard that lists hosts is the mark of it.
    "allowed_hosts": "internet",
}


@cache
def named_in_settings(component: str) -> frozenset[str]:
    found = set()
    for field in SETTINGS[component].model_fields:
        if field in OUTSIDE_BY_SETTING:
            found.add(OUTSIDE_BY_SETTING[field])
        elif match := re.fullmatch(r"(\w+)_target", field):
            found.add(_component(match.group(1)))
    return frozenset(found)


def settings_used_in_wiring(component: str) -> frozenset[str]:
    """Attributes `<something>_target` that the wiring of a component reads."""
    tree = ast.parse((ROOT / WIRING[component]).read_text())
    return frozenset(
        _component(node.attr.removesuffix("_target"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.endswith("_target")
    )


def _component(name: str) -> str:
    return name.replace("_", "-")


CASES = [name for name, _ in cases()]
OUTSIDE = {"postgres", "temporal", "kafka", "kubernetes", "internet"}
ENGINES = ("model-server", "policy-engine")
COMPONENT = "app.kubernetes.io/component"


@pytest.mark.parametrize("name", SETTINGS)
def test_a_component_calls_whom_its_settings_name(name: str) -> None:
    assert set(chart().values["components"][name]["calls"]) == named_in_settings(name)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_component_opens_the_channels_its_settings_name(name: str) -> None:
    services = named_in_settings(name) - OUTSIDE - {*ENGINES}
    assert settings_used_in_wiring(name) - OUTSIDE == services


def test_the_chart_has_every_component_of_the_code_and_no_other() -> None:
    assert set(chart().values["components"]) == set(SETTINGS)


def policies(objects: list[Json]) -> dict[str, Json]:
    found = of_kind(objects, "NetworkPolicy")
    return {one["spec"]["podSelector"]["matchLabels"][COMPONENT]: one["spec"] for one in found}


def edges(objects: list[Json], direction: str, peers: str) -> Iterator[tuple[str, str, int]]:
    """(owner, peer, port) of every rule that names pods of the release."""
    for owner, spec in policies(objects).items():
        for rule in spec.get(direction, []):
            for peer in rule.get(peers, []):
                labels = peer.get("podSelector", {}).get("matchLabels", {})
                if COMPONENT in labels and labels.get("app.kubernetes.io/name") == "podium":
                    for port in rule.get("ports", [{"port": 0}]):
                        yield owner, labels[COMPONENT], port["port"]


def test_every_edge_is_open_at_both_ends_and_no_end_is_open_alone() -> None:
    for case in CASES:
        objects = rendered(case)
        out = set(edges(objects, "egress", "to"))
        into = {(peer, owner, port) for owner, peer, port in edges(objects, "ingress", "from")}
        assert out == into, case


@pytest.mark.parametrize("case", ["kserve", "production"])
def test_the_open_edges_are_those_of_the_code(case: str) -> None:
    found = {
        (caller, callee)
        for caller, callee, _ in edges(rendered(case), "egress", "to")
        if caller in SETTINGS
    }
    assert found == {
        (name, callee) for name in SETTINGS for callee in named_in_settings(name) - OUTSIDE
    }


def test_model_written_code_has_no_way_out() -> None:
    assert policies(rendered("production"))["sandbox"]["egress"] == []


def test_no_component_calls_one_that_is_off() -> None:
    objects = rendered("defaults")
    assert "sandbox" not in str(objects)


@pytest.mark.parametrize("engine", ENGINES)
def test_only_the_orchestrator_reaches_vllm(engine: str) -> None:
    callers = {
        caller
        for case in CASES
        for caller, callee, _ in edges(rendered(case), "egress", "to")
        if callee == engine
    }
    assert callers == {"orchestrator-inference"}


def test_every_pod_is_under_a_policy_that_closes_both_directions() -> None:
    for case in CASES:
        objects = rendered(case)
        specs = [one["spec"] for one in of_kind(objects, "NetworkPolicy")]
        for pod in pod_templates(objects):
            covering = [
                spec
                for spec in specs
                if spec["podSelector"]["matchLabels"].items() <= pod.labels.items()
            ]
            assert covering, f"{case}: {pod.owner}"
            assert {"Ingress", "Egress"} == set(covering[0]["policyTypes"])


def test_without_peers_only_the_port_is_open_and_with_peers_only_theirs() -> None:
    for case, narrowed in (("defaults", False), ("production", True)):
        rules = policies(rendered(case))["cost-ledger"]["egress"]
        database = next(rule for rule in rules if rule["ports"][0]["port"] == 5432)
        assert ("to" in database) is narrowed


@pytest.mark.parametrize("profile", ["defaults", "production", "multi-tenant", "evaluation"])
def test_tools_of_tenants_reach_no_address_that_the_adapters_reject(profile: str) -> None:
    rules = policies(rendered(profile))["tool-adapters"]["egress"]
    blocks = [peer["ipBlock"] for rule in rules for peer in rule.get("to", []) if "ipBlock" in peer]
    open_blocks = [block for block in blocks if block["cidr"] in ("0.0.0.0/0", "::/0")]
    excepted = [cidr for block in open_blocks for cidr in block["except"]]
    assert len(open_blocks) == 2
    assert set(NOT_PUBLIC) <= set(excepted)


def test_every_component_has_a_certificate_under_the_names_it_is_called_by() -> None:
    objects = rendered("production")
    certificates = {one["metadata"]["name"]: one["spec"] for one in of_kind(objects, "Certificate")}
    for name in SETTINGS:
        spec = certificates[f"podium-{name}"]
        assert f"podium-{name}.podium.svc.cluster.local" in spec["dnsNames"]
        assert spec["uris"] == [f"spiffe://cluster.local/ns/podium/sa/podium-{name}"]


def test_a_certificate_names_the_callers_of_the_graph() -> None:
    for one in of_kind(rendered("production"), "Certificate"):
        if "podium.dev/callers" in one["metadata"].get("annotations", {}):
            callee = one["metadata"]["name"].removeprefix("podium-")
            callers = {
                caller
                for caller, components in chart().values["components"].items()
                if callee in components["calls"]
            }
            if callee == "gateway":
                callers |= {"training", "bootstrap"}
            named = one["metadata"]["annotations"]["podium.dev/callers"]
            assert set(filter(None, named.split(","))) == callers


def test_a_server_admits_only_its_callers_certificates() -> None:
    objects = rendered("production")
    held = {
        one["metadata"]["name"].removeprefix("podium-"): {
            *one["spec"].get("uris", []),
            *one["spec"].get("dnsNames", []),
        }
        for one in of_kind(objects, "Certificate")
    }
    for callee, settings in SETTINGS.items():
        if "allowed_clients" in settings.model_fields:
            allowed = set(json.loads(allowed_clients(objects, callee)))
            let_in = {name for name in SETTINGS if held[name] & allowed}
            assert let_in == {name for name in SETTINGS if callee in named_in_settings(name)}


def test_without_tls_no_client_certificate_is_required() -> None:
    without = render(merged(profile("minimal-cpu"), {"tls": {"enabled": False}}))
    for pod in pod_templates(without):
        for container in pod.spec["containers"]:
            assert "ALLOWED_CLIENTS" not in str(container.get("env"))


def allowed_clients(objects: list[Json], component: str) -> str:
    pod = next(pod for pod in pod_templates(objects) if pod.labels[COMPONENT] == component)
    variables = pod.spec["containers"][0]["env"]
    return next(str(one["value"]) for one in variables if one["name"].endswith("_ALLOWED_CLIENTS"))


GATEWAY = "podium-gateway.podium.svc.cluster.local"
NGINX = "nginx.ingress.kubernetes.io"
SECRET = "podium-gateway-tls"
CA_ONLY = [{"key": "ca.crt", "path": "ca.crt"}]
ROUTED = merged(EVERYTHING, switched_on("gatewayApi"))
PLAINTEXT: Json = merged(ROUTED, {"tls": {"enabled": False}})


@pytest.mark.parametrize("case", [name for name, _ in cases()])
def test_no_pod_calls_the_gateway_in_plaintext(case: str) -> None:
    if not (dict(cases())[case].get("tls") or {}).get("enabled", True):
        pytest.fail("a profile turns TLS off")
    for pod in pod_templates(rendered(case)):
        assert f"http://{GATEWAY}" not in json.dumps(pod.spec), pod.owner


def test_each_client_verifies_the_gateway_by_its_authority_and_has_no_key_of_it() -> None:
    clients = 0
    for pod in pod_templates(render(EVERYTHING)):
        if f"https://{GATEWAY}" not in json.dumps(pod.spec):
            continue
        clients += 1
        [container] = containers(pod.spec)
        mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        variables = {one["name"]: one.get("value") for one in container.get("env", [])}
        [file] = [
            value
            for name, value in variables.items()
            if name.endswith(("GATEWAY_AUTHORITY", "SSL_CERT_FILE", "TRAIN_TLS__AUTHORITY"))
        ]
        [volume] = [
            one
            for one in pod.spec["volumes"]
            if one["name"] in mounts and file == f"{mounts[one['name']]}/ca.crt"
        ]
        secret = volume["secret"]
        # A component has a certificate of its own, of the same authority.
        own = f"podium-{pod.labels['app.kubernetes.io/component']}-tls"
        assert secret["secretName"] in (SECRET, own), pod.owner
        assert secret["secretName"] == own or secret["items"] == CA_ONLY, pod.owner
    # The controller, the Job of bootstrap, the rollout worker and helm test.
    assert clients == 4


def test_the_gateway_serves_and_is_probed_by_tls_and_its_service_says_so() -> None:
    objects = render({})
    [gateway] = [pod for pod in pod_templates(objects) if pod.owner == "Deployment/podium-gateway"]
    [container] = gateway.spec["containers"]
    settings = {one["name"]: one.get("value") for one in container["env"]}
    assert settings["GATEWAY_TLS__CERTIFICATE"] == "/etc/podium/tls/tls.crt"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    [service] = [
        one for one in of_kind(objects, "Service") if one["metadata"]["name"] == "podium-gateway"
    ]
    port = service["spec"]["ports"][0]
    assert (port["name"], port["appProtocol"]) == ("https", "https")


def test_its_certificate_has_the_name_of_a_forwarded_port_and_no_other_has() -> None:
    for certificate in of_kind(
        render(merged(EVERYTHING, switched_on("certManager"))), "Certificate"
    ):
        names = certificate["spec"].get("dnsNames", [])
        assert ("localhost" in names) is (certificate["metadata"]["name"] == "podium-gateway")


def test_ingress_nginx_speaks_tls_to_the_gateway_and_verifies_it() -> None:
    own = {f"{NGINX}/proxy-body-size": "32m", f"{NGINX}/proxy-ssl-verify": "off"}
    [plain] = of_kind(render(EVERYTHING), "Ingress")
    [overridden] = of_kind(render(merged(EVERYTHING, {"ingress": {"annotations": own}})), "Ingress")
    wanted = {
        f"{NGINX}/backend-protocol": "HTTPS",
        f"{NGINX}/proxy-ssl-secret": f"podium/{SECRET}",
        f"{NGINX}/proxy-ssl-verify": "on",
        f"{NGINX}/proxy-ssl-name": GATEWAY,
        f"{NGINX}/proxy-ssl-server-name": "on",
    }
    assert plain["metadata"]["annotations"] == wanted
    assert overridden["metadata"]["annotations"] == wanted | own
    [path] = plain["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"]["port"] == {"number": 8080}


def test_a_route_of_the_gateway_api_has_a_policy_of_tls() -> None:
    [policy] = of_kind(render(ROUTED), "BackendTLSPolicy")
    [target] = policy["spec"]["targetRefs"]
    assert (target["kind"], target["name"]) == ("Service", "podium-gateway")
    validation = policy["spec"]["validation"]
    assert validation["hostname"] == GATEWAY
    assert validation["caCertificateRefs"] == [{"group": "", "kind": "Secret", "name": SECRET}]
    copied = merged(
        ROUTED, {"ingress": {"authorityRef": {"kind": "ConfigMap", "name": "podium-ca"}}}
    )
    [policy] = of_kind(render(copied), "BackendTLSPolicy")
    [reference] = policy["spec"]["validation"]["caCertificateRefs"]
    assert (reference["kind"], reference["name"]) == ("ConfigMap", "podium-ca")
    with pytest.raises(HelmError, match="authorityRef"):
        render(merged(ROUTED, {"ingress": {"authorityRef": {"kind": "Pod"}}}))


def test_without_tls_everything_is_plaintext() -> None:
    objects = render(PLAINTEXT)
    assert not of_kind(objects, "BackendTLSPolicy")
    assert f"https://{GATEWAY}" not in json.dumps(objects)
    assert SECRET not in json.dumps(objects)
    [ingress] = of_kind(render(merged(EVERYTHING, {"tls": {"enabled": False}})), "Ingress")
    assert "annotations" not in ingress["metadata"]
