import re

import pytest
import yaml

from chart.pods import containers, pod_templates
from chart.rendering import CHARTS, Json, merged, named, of_kind, profile, render
from gateway.config import GatewaySettings

CLOUDS = sorted(path.stem for path in (CHARTS / "podium/profiles/clouds").glob("*.yaml"))
BENEATH = ("evaluation", "one-gpu", "production")
REACHED = {"ingress": {"enabled": True, "host": "podium.example.com"}}
PLAIN = {"integrations": {"gatewayApi": {"enabled": False}}}


def cloud(name: str) -> Json:
    values: Json = yaml.safe_load((CHARTS / f"podium/profiles/clouds/{name}.yaml").read_text())
    return values


def on(name: str, beneath: str) -> list[Json]:
    values = merged(profile(beneath), cloud(name))
    return render(merged(merged(values, REACHED), PLAIN))


@pytest.mark.parametrize("beneath", BENEATH)
@pytest.mark.parametrize("name", CLOUDS)
def test_the_ingress_of_a_cloud_reaches_the_gateway(name: str, beneath: str) -> None:
    objects = on(name, beneath)
    [ingress] = of_kind(objects, "Ingress")
    assert ingress["spec"]["ingressClassName"] == cloud(name)["ingress"]["className"]
    policy = named(objects, "NetworkPolicy", "podium-gateway")
    admitted = [peer for rule in policy["spec"]["ingress"] for peer in rule.get("from", ())]
    assert all(peer in admitted for peer in cloud(name)["ingress"]["from"])


@pytest.mark.parametrize("name", sorted(set(CLOUDS) - {"gke"}))
def test_a_proxy_waits_as_long_as_a_chat_may_take(name: str) -> None:
    """It would answer 504, and the gateway cancels the episode of a client that went away."""
    [ingress] = of_kind(on(name, "evaluation"), "Ingress")
    annotations = ingress["metadata"]["annotations"].items()
    [waits] = [re.search(r"\d+", value) for key, value in annotations if "time" in key + value]
    assert waits
    longest = GatewaySettings.model_fields["chat_wait_s"].default
    assert int(waits.group()) > longest


@pytest.mark.parametrize("beneath", BENEATH)
def test_openshift_chooses_the_user_and_is_asked_for_names_at_its_port(beneath: str) -> None:
    objects = on("openshift", beneath)
    for pod in pod_templates(objects):
        contexts = [pod.spec.get("securityContext", {})]
        contexts += [container.get("securityContext", {}) for container in containers(pod.spec)]
        assert not any("runAsUser" in each or "fsGroup" in each for each in contexts)
    policies = [
        policy for policy in of_kind(objects, "NetworkPolicy") if policy["spec"].get("egress")
    ]
    ports = {port["port"] for policy in policies for port in dns_ports(policy)}
    assert ports == {5353}


def dns_ports(policy: Json) -> list[Json]:
    return [
        port
        for rule in policy["spec"].get("egress", ())
        if "openshift-dns" in str(rule.get("to"))
        for port in rule["ports"]
    ]


@pytest.mark.parametrize("name", sorted(set(CLOUDS) - {"openshift"}))
def test_claims_are_of_the_clouds_class(name: str) -> None:
    claims = [
        claim["spec"]["storageClassName"]
        for server in of_kind(on(name, "one-gpu"), "StatefulSet")
        for claim in server["spec"].get("volumeClaimTemplates", ())
    ]
    assert set(claims) == {cloud(name)["servers"]["claims"]["storageClassName"]}


def test_one_gpu_serves_a_model_of_eight_billion_parameters_at_a_price() -> None:
    objects = render(profile("one-gpu"))
    [engine] = [pod for pod in pod_templates(objects) if "vllm/vllm-openai" in str(pod.spec)]
    limits = [each.get("resources", {}).get("limits", {}) for each in containers(engine.spec)]
    assert [each["nvidia.com/gpu"] for each in limits if "nvidia.com/gpu" in each] == ["1"]
    assert "Qwen/Qwen3-8B" in str(engine.spec)
    assert "orchestrator/qwen3-8b" in str(of_kind(objects, "ConfigMap"))
