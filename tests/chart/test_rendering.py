import pytest

from chart.pods import containers, pod_templates
from chart.rendering import (
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
