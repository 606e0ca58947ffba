import pytest

from chart.code_graph import SETTINGS
from chart.pods import containers, pod_templates
from chart.rendering import Json, cases, chart, of_kind, rendered

MADE = ("ConfigMap", "PersistentVolumeClaim")
CASES = [name for name, _ in cases()]
COMPONENT = "app.kubernetes.io/component"


def selected(objects: list[Json], selector: dict[str, str]) -> list[Json]:
    return [pod.spec for pod in pod_templates(objects) if selector.items() <= pod.labels.items()]


def port_numbers(specs: list[Json]) -> dict[str | int, int]:
    ports = [port for spec in specs for one in containers(spec) for port in one.get("ports", [])]
    by_name = {port["name"]: port["containerPort"] for port in ports}
    return by_name | {port["containerPort"]: port["containerPort"] for port in ports}


def test_every_service_finds_pods_that_listen_on_its_ports() -> None:
    for case in CASES:
        objects = rendered(case)
        for service in of_kind(objects, "Service"):
            pods = selected(objects, service["spec"]["selector"])
            if service["metadata"]["name"] == "podium-policy-engine":
                # Its pods are made later (test_policy_engines).
                continue
            assert pods, service["metadata"]["name"]
            # KServe names the ports of an LLMInferenceService by itself.
            if (
                case.startswith("llmInferenceService")
                and "model-server" in service["metadata"]["name"]
            ):
                continue
            for port in service["spec"]["ports"]:
                assert port["targetPort"] in port_numbers(pods), service["metadata"]["name"]


def test_every_selector_matches_its_own_pods_and_no_others() -> None:
    for case in CASES:
        for obj in of_kind(rendered(case), "Deployment"):
            labels = obj["spec"]["template"]["metadata"]["labels"]
            selector = obj["spec"]["selector"]["matchLabels"]
            assert selector.items() <= labels.items()
            assert len(selected(rendered(case), selector)) == 1


def test_every_budget_guards_pods_and_every_served_pod_has_one() -> None:
    for case in CASES:
        objects = rendered(case)
        guarded = [
            one["spec"]["selector"]["matchLabels"]
            for one in of_kind(objects, "PodDisruptionBudget")
        ]
        assert all(selected(objects, selector) for selector in guarded)
        for pod in pod_templates(objects):
            if pod.owner.split("/")[0] in ("Deployment", "WorkerDeployment", "InferenceService"):
                assert any(selector.items() <= pod.labels.items() for selector in guarded), (
                    pod.owner
                )


def test_every_probe_asks_a_port_that_is_open() -> None:
    for case in CASES:
        for pod in pod_templates(rendered(case)):
            for container in containers(pod.spec):
                ports = port_numbers([{"containers": [container]}])
                for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                    probe = container.get(kind, {})
                    for how in ("grpc", "httpGet"):
                        if how in probe:
                            assert probe[how]["port"] in ports, pod.owner


def test_every_component_but_the_gateway_is_probed_in_plaintext_grpc() -> None:
    """On the port its own settings open; the worker, which serves no port, has one too."""
    for case in ("minimal-cpu", "production"):
        probed = {pod.labels[COMPONENT]: pod for pod in pod_templates(rendered(case))}
        for name in SETTINGS.keys() & probed.keys() - {"gateway"}:
            container = probed[name].spec["containers"][0]
            settings = {one["name"]: one.get("value") for one in container["env"]}
            prefix = chart().values["components"][name]["settingsPrefix"]
            port = int(settings[f"{prefix}HEALTH_PORT"])
            assert settings[f"{prefix}HOST"] == "0.0.0.0"
            assert container["livenessProbe"]["grpc"] == {"port": port, "service": "liveness"}
            assert container["startupProbe"]["grpc"] == {"port": port, "service": "liveness"}
            assert container["readinessProbe"]["grpc"] == {"port": port, "service": "readiness"}


def test_a_pod_has_time_to_drain() -> None:
    for case in CASES:
        values = chart().merge_values(dict(cases())[case])
        for component in values["components"].values():
            settings = values["componentDefaults"] | component
            drain = settings["drain"]["waitSeconds"] + settings["drain"]["graceSeconds"]
            assert settings["terminationGracePeriodSeconds"] > drain


def read_by_pods(objects: list[Json]) -> set[str]:
    found: set[str] = set()
    for pod in pod_templates(objects):
        for volume in pod.spec.get("volumes", []):
            sources = [volume, *volume.get("projected", {}).get("sources", [])]
            found |= {
                one["secret"].get("secretName") or one["secret"].get("name")
                for one in sources
                if "secret" in one
            }
            found |= {one["configMap"]["name"] for one in sources if "configMap" in one}
            found |= {
                one["persistentVolumeClaim"]["claimName"]
                for one in sources
                if one.get("persistentVolumeClaim")
            }
        for container in containers(pod.spec):
            for variable in container.get("env", []):
                if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
                    found.add(reference["name"])
    return found


@pytest.mark.parametrize("case", ["defaults", "dev", "production", "Kafka by password"])
def test_the_notes_name_everything_that_pods_wait_for(case: str) -> None:
    objects = rendered(case)
    files = chart().render(dict(cases())[case], name="podium", namespace="podium")
    [notes] = [text for path, text in files.items() if path.endswith("NOTES.txt")]
    made = {each["metadata"]["name"] for each in of_kind(objects, *MADE)}
    made |= {each["spec"]["secretName"] for each in of_kind(objects, "Certificate")}
    if "podium-<component>-tls" in notes:
        made |= {name for name in read_by_pods(objects) if name.endswith("-tls")}
    missing = read_by_pods(objects) - made - {"kube-root-ca.crt"}
    assert missing
    assert not [name for name in sorted(missing) if f"  {name}" not in notes]


def test_every_account_and_mount_exists() -> None:
    for case in CASES:
        objects = rendered(case)
        accounts = {one["metadata"]["name"] for one in of_kind(objects, "ServiceAccount")}
        for pod in pod_templates(objects):
            if pod.owner not in ("Pod/podium-test-readiness", "Pod/podium-test-apis"):
                assert pod.spec["serviceAccountName"] in accounts, pod.owner
            volumes = {volume["name"] for volume in pod.spec.get("volumes", [])}
            for container in containers(pod.spec):
                mounts = {mount["name"] for mount in container.get("volumeMounts", [])}
                assert mounts <= volumes, pod.owner


def test_every_monitor_finds_a_named_port() -> None:
    for case in CASES:
        objects = rendered(case)
        for monitor in of_kind(objects, "ServiceMonitor"):
            wanted = monitor["spec"]["selector"]["matchExpressions"][0]["values"]
            services = [
                one
                for one in of_kind(objects, "Service")
                if one["metadata"]["labels"]["app.kubernetes.io/component"] in wanted
            ]
            assert len(services) == len(wanted)
            for endpoint in monitor["spec"]["endpoints"]:
                for service in services:
                    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}


def test_headless_services_balance_grpc_and_only_grpc() -> None:
    for service in of_kind(rendered("production"), "Service"):
        names = {port["name"] for port in service["spec"]["ports"]}
        if "grpc" in names:
            assert service["spec"]["clusterIP"] == "None"
