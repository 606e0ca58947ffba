import re

import pytest
import yaml

from chart.pods import containers, pod_templates
from chart.rendering import (
    CHARTS,
    EVERYTHING,
    Json,
    cases,
    chart,
    merged,
    named,
    of_kind,
    profile,
    render,
    rendered,
    switched_on,
)
from chart.test_network import SETTINGS
from gateway.config import GatewaySettings

CASES = [name for name, _ in cases()]


def container(objects: list[Json], kind: str, name: str) -> Json:
    found: Json = named(objects, kind, name)["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize("case", ["defaults", "production", "multi-tenant"])
def test_rendering_again_or_as_an_upgrade_gives_the_same_bytes(case: str) -> None:
    values = dict(cases())[case]
    first = chart().render(values, name="podium", namespace="podium", revision=1, is_install=True)
    later = chart().render(values, name="podium", namespace="podium", revision=7, is_upgrade=True)
    assert first == later


def test_every_pod_goes_to_the_nodes_that_component_defaults_name() -> None:
    placement: Json = {
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "services", "operator": "Exists"}],
    }
    values = merged(profile("evaluation"), {"componentDefaults": placement})
    pods = {pod.owner: pod.spec for pod in pod_templates(render(values))}
    # The model has its own: accelerator.nodeSelector and accelerator.tolerations.
    del pods["Deployment/podium-model-server"]
    assert {"Pod/podium-test-apis", "Pod/podium-test-readiness"} < pods.keys()
    for owner, spec in pods.items():
        assert {key: spec.get(key) for key in placement} == placement, owner


def test_a_long_migration_may_have_its_time() -> None:
    objects = render({"components": {"cost-ledger": {"startupSeconds": 3600}}})
    probe = container(objects, "Deployment", "podium-cost-ledger")["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 3600
    other = container(objects, "Deployment", "podium-gateway")["startupProbe"]
    assert other["periodSeconds"] * other["failureThreshold"] == 300


def test_who_downloads_a_gated_model_has_the_token_of_its_hub() -> None:
    values: Json = {
        "inference": {"modelUri": "hf://o/m", "hubToken": {"secretName": "hub", "key": "token"}},
        "training": {"enabled": True, "model": "hf://o/m"},
    }
    holders = {
        (pod.owner.split("/")[0], one["name"])
        for pod in pod_templates(render(values))
        for one in containers(pod.spec)
        for variable in one.get("env", [])
        if variable["name"] == "HF_TOKEN"
        and variable["valueFrom"]["secretKeyRef"] == {"name": "hub", "key": "token"}
    }
    assert holders == {("Deployment", "vllm"), ("Job", "model")}


def test_no_two_objects_of_a_release_have_one_name() -> None:
    for case in CASES:
        ids = [
            (obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace"))
            for obj in rendered(case)
        ]
        assert len(ids) == len(set(ids)), case


def test_two_releases_in_one_namespace_do_not_collide() -> None:
    values = merged(EVERYTHING, switched_on("kserve", "strimzi"))
    first, second = (
        {(obj["kind"], obj["metadata"]["name"]) for obj in render(values, release=release)}
        for release in ("first", "second")
    )
    assert first
    assert not first & second


def test_without_kserve_vllm_is_a_deployment_that_gives_up_a_gpu_before_it_takes_one() -> None:
    deployment = named(rendered("defaults"), "Deployment", "podium-model-server")["spec"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    resources = deployment["template"]["spec"]["containers"][0]["resources"]
    assert resources["limits"]["nvidia.com/gpu"] == "1"


def test_an_inference_service_gives_up_a_gpu_before_it_takes_one() -> None:
    predictor = of_kind(rendered("production"), "InferenceService")[0]["spec"]["predictor"]
    assert predictor["deploymentStrategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_kserve_gets_its_mode_and_its_own_name_for_the_model() -> None:
    objects = rendered("production")
    service = of_kind(objects, "InferenceService")[0]
    assert service["metadata"]["annotations"]["serving.kserve.io/deploymentMode"] == "Standard"
    arguments = of_kind(objects, "ServingRuntime")[0]["spec"]["containers"][0]["args"]
    assert "--served-model-name={{.Name}}" in arguments
    assert environment(objects, "orchestrator-inference")["DEFAULT_MODEL"] == "podium-orchestrator"
    assert service["metadata"]["name"] == "podium-orchestrator"


def test_fields_of_kserve_0_21_are_kept_from_0_20() -> None:
    newer = of_kind(rendered("llmInferenceService"), "LLMInferenceService")[0]["spec"]
    older = of_kind(rendered("llmInferenceService of KServe 0.20"), "LLMInferenceService")[0][
        "spec"
    ]
    assert {"scaling", "rolloutStrategy"} <= set(newer)
    assert not {"scaling", "rolloutStrategy"} & set(older)
    assert older["replicas"] == 1


def test_no_kserve_pod_gets_a_python_path() -> None:
    for case in CASES:
        for runtime in of_kind(rendered(case), "ServingRuntime"):
            names = {variable["name"] for variable in runtime["spec"]["containers"][0]["env"]}
            assert "PYTHONPATH" not in names, case


def test_the_minimal_profile_is_plain_kubernetes_without_a_gpu() -> None:
    objects = rendered("minimal-cpu")
    assert {obj["apiVersion"] for obj in objects} == {
        "apps/v1",
        "batch/v1",
        "networking.k8s.io/v1",
        "policy/v1",
        "rbac.authorization.k8s.io/v1",
        "v1",
    }
    assert "gpu" not in str(objects)


def test_an_external_engine_needs_no_model_pods() -> None:
    objects = rendered("external engine")
    assert not [obj for obj in objects if "model-server" in obj["metadata"]["name"]]
    assert environment(objects, "orchestrator-inference")["ENGINE_BASE_URL"] == "https://engine/v1"


def test_large_numbers_are_written_as_numbers() -> None:
    config = of_kind(rendered("production"), "KafkaTopic")[0]["spec"]["config"]
    assert config["retention.ms"] == 336 * 3600 * 1000
    assert config["max.message.bytes"] == 4 * 1024 * 1024


def test_an_external_secret_makes_the_secret_that_pods_read() -> None:
    objects = rendered("production")
    made = {obj["spec"]["target"]["name"] for obj in of_kind(objects, "ExternalSecret")}
    read = {
        variable["valueFrom"]["secretKeyRef"]["name"]
        for variable in container(objects, "Deployment", "podium-gateway")["env"]
        if "valueFrom" in variable
    }
    assert read <= made


def test_without_the_operator_the_same_secrets_are_expected_to_exist() -> None:
    on, off = (
        container(rendered(case), "Deployment", "podium-orchestrator-inference")["env"]
        for case in ("externalSecrets", "plain")
    )
    assert on == off


def test_a_secret_that_a_setting_wants_as_a_file_is_mounted_as_one() -> None:
    objects = rendered("defaults")
    path = environment(objects, "cost-ledger")["ANCHOR_KEY_FILE"]
    ledger = container(objects, "Deployment", "podium-cost-ledger")
    mount = next(one for one in ledger["volumeMounts"] if path.startswith(one["mountPath"] + "/"))
    volumes = named(objects, "Deployment", "podium-cost-ledger")["spec"]["template"]["spec"]
    volume = next(one for one in volumes["volumes"] if one["name"] == mount["name"])
    (source,) = volume["projected"]["sources"]
    assert source["secret"]["name"] == "podium-identity"
    item = {"key": "ledger-anchor.pem", "path": path.removeprefix(mount["mountPath"] + "/")}
    assert source["secret"]["items"] == [item]


def test_a_ledger_without_a_key_for_its_roots_asks_for_none() -> None:
    values = {"components": {"cost-ledger": {"secretFiles": {"anchor_key_file": None}}}}
    ledger = container(render(values), "Deployment", "podium-cost-ledger")
    assert "ledger-anchor" not in str(render(values))
    assert "secrets" not in {mount["name"] for mount in ledger["volumeMounts"]}


def test_a_file_of_a_store_is_fetched_under_its_settings_name() -> None:
    store = {"externalSecret": {"store": "vault", "remoteKey": "podium/anchor"}}
    files = {"components": {"cost-ledger": {"secretFiles": {"anchor_key_file": store}}}}
    objects = render(merged(switched_on("externalSecrets"), files))
    (made,) = (
        one["spec"]["target"]["name"]
        for one in of_kind(objects, "ExternalSecret")
        if one["spec"]["data"][0]["remoteRef"]["key"] == "podium/anchor"
    )
    volumes = named(objects, "Deployment", "podium-cost-ledger")["spec"]["template"]["spec"]
    assert made in str(volumes["volumes"])


def test_a_kafka_that_asks_for_passwords_gives_every_client_a_user_with_one() -> None:
    objects = rendered("Kafka by password")
    users = {one["metadata"]["name"]: one["spec"] for one in of_kind(objects, "KafkaUser")}
    assert {user["authentication"]["type"] for user in users.values()} == {"scram-sha-512"}
    for component in ("cost-ledger", "episode-worker"):
        settings = environment(objects, component)
        assert settings["KAFKA__SECURITY_PROTOCOL"] == "SASL_SSL"
        assert settings["KAFKA__USERNAME"] in users
        assert settings["KAFKA__PASSWORD_FILE"] == "/etc/podium/kafka/password"
        assert not {"KAFKA__CERTIFICATE", "KAFKA__PRIVATE_KEY"} & set(settings)


def environment(objects: list[Json], component: str) -> dict[str, str]:
    variables = container(objects, "Deployment", f"podium-{component}")["env"]
    prefix = chart().values["components"][component]["settingsPrefix"]
    return {
        variable["name"].removeprefix(prefix): variable["value"]
        for variable in variables
        if "value" in variable
    }


MADE = ("ConfigMap", "PersistentVolumeClaim")
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
