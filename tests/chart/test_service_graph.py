import json
from collections.abc import Iterator

import pytest

from chart.code_graph import SETTINGS, named_in_settings, settings_used_in_wiring
from chart.pods import pod_templates
from chart.rendering import Json, cases, chart, merged, of_kind, profile, render, rendered
from tool_adapters.network_guard import NOT_PUBLIC

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
    for callee in SETTINGS:
        if "allowed_clients" in SETTINGS[callee].model_fields:
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
