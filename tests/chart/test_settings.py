from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from chart.pods import PodTemplate, pod_templates
from chart.rendering import Json, named, of_kind, render, rendered
from chart.test_network import SETTINGS

CASES = (
    *("defaults", "evaluation", "minimal-cpu", "dev", "production", "multi-tenant"),
    *("external engine", "Kafka by password"),
)
FOLDER = "/etc/podium"
# Off where nothing is said of them; engines are made by KServe alone.
OFF = {
    "defaults": ("sandbox", "policy-engines", "rollout-worker"),
    "evaluation": ("sandbox", "policy-engines", "rollout-worker"),
    "dev": ("sandbox", "policy-engines", "rollout-worker"),
    "minimal-cpu": ("sandbox", "policy-engines", "rollout-worker"),
    "external engine": ("policy-engines",),
    "Kafka by password": ("policy-engines",),
}
RUNNING = [
    (case, component)
    for case in CASES
    for component in SETTINGS
    if component not in OFF.get(case, ())
]


def environment(case: str, component: str) -> dict[str, str]:
    """Variables of a component's container; values of secrets are made up."""
    found = {}
    for variable in container(case, component)["env"]:
        reference = variable.get("valueFrom", {}).get("secretKeyRef")
        found[variable["name"]] = "made-up" if reference else variable["value"]
    return found


def container(case: str, component: str) -> Json:
    owners = of_kind(rendered(case), "Deployment", "WorkerDeployment")
    owner = next(one for one in owners if one["metadata"]["name"] == f"podium-{component}")
    first: Json = owner["spec"]["template"]["spec"]["containers"][0]
    return first


@pytest.mark.parametrize(("case", "component"), RUNNING)
def test_a_service_loads_its_settings_from_the_rendered_environment(
    case: str, component: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(case, component).items():
        if value.startswith(FOLDER):
            path = tmp_path / value.removeprefix("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
            value = str(path)  # noqa: PLW2901
        monkeypatch.setenv(name, value)
    settings = SETTINGS[component]()
    loaded = settings.model_dump()
    assert loaded["telemetry"]["metrics_port"] == 9090
    assert loaded.get("host", "0.0.0.0") == "0.0.0.0"
    if "port" in loaded:
        assert loaded["port"] == container(case, component)["ports"][0]["containerPort"]


def test_numbers_and_booleans_reach_a_service_as_they_were_written() -> None:
    settings = {"body_bytes_max": 67_108_864, "keepalive_s": 2.5, "cancel_on_disconnect": False}
    objects = render({"components": {"gateway": {"settings": settings}}})
    pod = named(objects, "Deployment", "podium-gateway")["spec"]["template"]["spec"]
    said = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert said["GATEWAY_BODY_BYTES_MAX"] == "67108864"
    assert said["GATEWAY_KEEPALIVE_S"] == "2.5"
    assert said["GATEWAY_CANCEL_ON_DISCONNECT"] == "false"


@pytest.mark.parametrize(
    ("settings", "said"),
    [({}, ["https://api.example.com"]), ({"public_url": "https://other"}, ["https://other"])],
)
def test_the_gateway_behind_an_ingress_knows_how_clients_reach_it(
    settings: Json, said: list[str]
) -> None:
    """TLS ends before it: by what a request says, its own addresses would begin with http."""
    ingress: Json = {"enabled": True, "host": "api.example.com", "from": [{"podSelector": {}}]}
    objects = render({"ingress": ingress, "components": {"gateway": {"settings": settings}}})
    pod = named(objects, "Deployment", "podium-gateway")["spec"]["template"]["spec"]
    variables = pod["containers"][0]["env"]
    assert [one["value"] for one in variables if one["name"] == "GATEWAY_PUBLIC_URL"] == said


@pytest.mark.parametrize(("case", "component"), RUNNING)
def test_every_variable_is_a_setting_of_the_service(case: str, component: str) -> None:
    prefix = SETTINGS[component].model_config.get("env_prefix", "")
    unknown = [
        name
        for name in environment(case, component)
        if not name.startswith(prefix)
        or not is_setting(SETTINGS[component], name.removeprefix(prefix).lower().split("__"))
    ]
    assert not unknown


def is_setting(model: Any, path: list[str]) -> bool:
    for part in path:
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return False
        if part not in model.model_fields:
            return False
        annotation = model.model_fields[part].annotation
        inner = [kind for kind in getattr(annotation, "__args__", ()) if kind is not type(None)]
        model = inner[0] if inner else annotation
    return True


@pytest.mark.parametrize("component", SETTINGS)
def test_every_file_a_setting_names_is_mounted(component: str) -> None:
    one = container("production", component)
    mounts = {mount["mountPath"] for mount in one["volumeMounts"]}
    values = environment("production", component).values()
    paths = [value for value in values if value.startswith("/")]
    assert not [path for path in paths if not any(path.startswith(mount) for mount in mounts)]


def test_secrets_are_read_from_secrets_alone() -> None:
    for component in SETTINGS:
        for variable in container("production", component)["env"]:
            if variable["name"].endswith(("DATABASE_URL", "API_KEY")):
                assert "secretKeyRef" in variable["valueFrom"]


COMPONENT = "app.kubernetes.io/component"
# Strimzi: "Secrets generated by the operators" and "User authentication" of its documentation.
# Temporal's worker controller: spec.mutualTLSSecretRef of its Connection, a Secret of type
# kubernetes.io/tls.
CLUSTER_CA = {"ca.crt", "ca.p12", "ca.password"}
USER_KEYS = {
    "tls": {"ca.crt", "user.crt", "user.key", "user.p12", "user.password"},
    "scram-sha-512": {"password", "sasl.jaas.config"},
}
KINDS = {"SSL": "tls", "SASL_SSL": "scram-sha-512"}
TEMPORAL = {"enabled": True, "secretName": "temporal-client", "serverName": "frontend.temporal"}


def release(protocol: str = "PLAINTEXT", **temporal: object) -> list[Json]:
    return render(
        {
            "integrations": {
                "strimzi": {"enabled": True},
                "temporalWorkerController": {"enabled": True},
            },
            "endpoints": {"kafka": {"securityProtocol": protocol}, "temporal": temporal},
            "training": {"enabled": True},
        }
    )


def kafka_keys(pod: PodTemplate) -> dict[str, dict[str, str]]:
    volumes = {volume["name"]: volume for volume in pod.spec.get("volumes", [])}
    sources = volumes.get("kafka", {}).get("projected", {}).get("sources", [])
    return {
        source["secret"]["name"]: {one["key"]: one["path"] for one in source["secret"]["items"]}
        for source in sources
    }


def files_named(pod: PodTemplate, folder: str) -> set[str]:
    variables = pod.spec["containers"][0].get("env", [])
    values = [str(one.get("value", "")) for one in variables]
    return {value.removeprefix(folder) for value in values if value.startswith(folder)}


@pytest.mark.parametrize("protocol", KINDS)
def test_clients_of_kafka_mount_their_users_keys_and_the_authority_of_the_brokers(
    protocol: str,
) -> None:
    objects = release(protocol)
    users = {one["metadata"]["name"]: one["spec"] for one in of_kind(objects, "KafkaUser")}
    clients = {
        f"podium-{pod.labels[COMPONENT]}": pod for pod in pod_templates(objects) if kafka_keys(pod)
    }
    assert clients.keys() == users.keys()
    for name, pod in clients.items():
        keys = kafka_keys(pod)
        # The ca.crt of a user's own Secret signs clients and would verify no broker.
        authority = keys.pop("kafka-cluster-ca-cert")
        assert authority == {"ca.crt": "ca.crt"}
        assert keys.keys() == {name}
        kind = users[name]["authentication"]["type"]
        assert kind == KINDS[protocol]
        assert set(keys[name]) <= USER_KEYS[kind] - CLUSTER_CA
        if name != "podium-training":
            mounted = {*authority.values(), *keys[name].values()}
            assert files_named(pod, "/etc/podium/kafka/") == mounted


def test_clients_of_temporal_and_its_controller_use_one_secret() -> None:
    objects = release(tls=TEMPORAL)
    clients = [
        pod
        for pod in pod_templates(objects)
        if pod.labels[COMPONENT] in ("episodes", "episode-worker")
    ]
    assert len(clients) == 2
    for pod in clients:
        volume = next(one for one in pod.spec["volumes"] if one["name"] == "temporal")
        assert volume["secret"]["secretName"] == "temporal-client"
        assert files_named(pod, "/etc/podium/temporal/") == {"ca.crt", "tls.crt", "tls.key"}
    (connection,) = of_kind(objects, "Connection")
    assert connection["spec"]["mutualTLSSecretRef"] == {"name": "temporal-client"}
    assert connection["spec"]["tls"] == {"serverName": "frontend.temporal"}


def test_tls_with_temporal_needs_its_secret() -> None:
    with pytest.raises(Exception, match=r"endpoints\.temporal\.tls\.secretName is empty"):
        release(tls={"enabled": True})


def test_the_job_and_the_services_verify_postgresql_by_an_authority_of_the_users_own() -> None:
    brought: dict[str, Any] = {
        "env": {"PGSSLROOTCERT": "/etc/postgres/ca.crt"},
        "extraVolumes": [{"name": "postgres", "secret": {"secretName": "postgres-ca"}}],
        "extraVolumeMounts": [{"name": "postgres", "mountPath": "/etc/postgres"}],
    }
    objects = render({"bootstrap": brought, "componentDefaults": brought})
    pods = {pod.spec["containers"][0]["name"]: pod for pod in pod_templates(objects)}
    for name in ("bootstrap", "gateway", "episodes", "tool-registry", "cost-ledger"):
        assert files_named(pods[name], "/etc/postgres/") == {"ca.crt"}
        (container,) = pods[name].spec["containers"]
        assert brought["extraVolumeMounts"][0] in container["volumeMounts"]
        assert brought["extraVolumes"][0] in pods[name].spec["volumes"]


def test_the_model_servers_account_has_the_annotations_by_which_a_cloud_knows_it() -> None:
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/models"}
    objects = render({"inference": {"serviceAccountAnnotations": role}})
    annotations = {
        account["metadata"]["name"]: account["metadata"].get("annotations")
        for account in of_kind(objects, "ServiceAccount")
    }
    assert annotations.pop("podium-model-server") == role
    assert not any(annotations.values())
