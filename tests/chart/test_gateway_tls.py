import json

import pytest
from helm_python import HelmError

from chart.pods import containers, pod_templates
from chart.rendering import EVERYTHING, Json, cases, merged, of_kind, render, rendered, switched_on

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
