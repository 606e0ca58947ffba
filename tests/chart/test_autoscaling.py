from chart.rendering import Json, chart, merged, named, of_kind, render, rendered, switched_on
from chart.test_network import policy

WORKER = "podium-episode-worker"
SCALED: Json = {
    "componentDefaults": {"autoscaling": {"enabled": True}},
    "components": {"episode-worker": {"autoscaling": {"enabled": True}}},
}
TLS: Json = {"enabled": True, "secretName": "temporal", "serverName": "frontend"}


def triggers(objects: list[Json], name: str = WORKER) -> dict[str, Json]:
    found = named(objects, "ScaledObject", name)["spec"]["triggers"]
    return {one["type"]: one for one in found}


def test_scaled_components_do_not_fight_their_autoscaler_about_replicas() -> None:
    for case in ("production", "keda", "plain"):
        objects = rendered(case)
        scalers = of_kind(objects, "ScaledObject", "HorizontalPodAutoscaler")
        targets = {scaler["spec"]["scaleTargetRef"]["name"] for scaler in scalers}
        assert targets, case
        for deployment in of_kind(objects, "Deployment"):
            scaled = deployment["metadata"]["name"] in targets
            assert ("replicas" not in deployment["spec"]) is scaled, case


def test_with_the_worker_controller_a_scaler_exists_per_version_and_names_nothing() -> None:
    template = of_kind(rendered("production"), "WorkerResourceTemplate")[0]["spec"]["template"]
    assert template["spec"]["scaleTargetRef"] == {}
    owned = ("namespace", "workerDeploymentName", "workerDeploymentBuildId")
    assert [template["spec"]["triggers"][0]["metadata"][key] for key in owned] == ["", "", ""]


def test_consumers_never_outnumber_partitions() -> None:
    lag = {"consumerGroup": "readers", "lagThreshold": 500}
    scaling = {"enabled": True, "maxReplicas": 99, "kafkaLag": lag}
    values = merged(switched_on("keda"), {"components": {"episodes": {"autoscaling": scaling}}})
    scaler = named(render(values), "ScaledObject", "podium-episodes")["spec"]
    assert scaler["maxReplicaCount"] == chart().values["kafka"]["trajectories"]["partitions"]
    assert scaler["triggers"][0]["metadata"]["offsetResetPolicy"] == "earliest"


def test_workers_are_scaled_by_tasks_and_by_open_work() -> None:
    objects = render(merged(switched_on("keda"), SCALED))
    assert set(triggers(objects)) == {"temporal", "metrics-api"}
    assert set(triggers(objects, "podium-gateway")) == {"cpu"}


def test_open_work_is_read_where_the_episodes_server_shows_them() -> None:
    objects = render(merged(switched_on("keda"), SCALED))
    metadata = triggers(objects)["metrics-api"]["metadata"]
    service = named(objects, "Service", "podium-episodes")
    [port] = [one["port"] for one in service["spec"]["ports"] if one["name"] == "metrics"]
    host = "podium-episodes.podium.svc.cluster.local"
    assert metadata["url"] == f"http://{host}:{port}/metrics"


def test_only_where_keda_scales_may_its_operator_read_metrics() -> None:
    keda = chart().values["integrations"]["keda"]["from"]
    readers = [
        one["metadata"]["name"]
        for one in of_kind(render(switched_on("keda")), "NetworkPolicy")
        if {"from": keda, "ports": [{"protocol": "TCP", "port": 9090}]}
        in one["spec"].get("ingress", [])
    ]
    assert readers == ["podium-episodes"]
    assert "keda" not in str(policy(render(), "podium-episodes"))


def test_keda_shows_temporal_what_the_workers_show() -> None:
    key = {"secretSettings": {"temporal__api_key": {"secretName": "cloud", "key": "api-key"}}}
    secured = {"endpoints": {"temporal": {"tls": TLS}}, "components": {"episode-worker": key}}
    objects = render(merged(merged(switched_on("keda"), SCALED), secured))
    temporal = triggers(objects)["temporal"]
    assert temporal["metadata"]["enableTLS"] == "true"
    assert temporal["metadata"]["tlsServerName"] == TLS["serverName"]
    authentication = named(objects, "TriggerAuthentication", temporal["authenticationRef"]["name"])
    shown = {
        one["parameter"]: (one["name"], one["key"])
        for one in authentication["spec"]["secretTargetRef"]
    }
    assert shown == {
        "ca": ("temporal", "ca.crt"),
        "cert": ("temporal", "tls.crt"),
        "key": ("temporal", "tls.key"),
        "apiKey": ("cloud", "api-key"),
    }


def test_without_tls_keda_shows_temporal_nothing() -> None:
    objects = render(merged(switched_on("keda"), SCALED))
    assert "authenticationRef" not in triggers(objects)["temporal"]
    assert not of_kind(objects, "TriggerAuthentication")


def test_keda_finds_servers_of_the_releases_namespace_from_its_own() -> None:
    lag = {"consumerGroup": "readers", "lagThreshold": 500}
    endpoints = {
        "temporal": {"target": "frontend:7233"},
        "kafka": {"bootstrap": "kafka-0:9092,kafka-1.kafka.svc:9092"},
    }
    scaling = {"components": {"episodes": {"autoscaling": {"kafkaLag": lag}}}}
    objects = render(
        merged(merged(merged(switched_on("keda"), SCALED), {"endpoints": endpoints}), scaling)
    )
    temporal = triggers(objects)["temporal"]["metadata"]["endpoint"]
    assert temporal == "frontend.podium.svc.cluster.local:7233"
    kafka = triggers(objects, "podium-episodes")["kafka"]["metadata"]["bootstrapServers"]
    assert kafka == "kafka-0.podium.svc.cluster.local:9092,kafka-1.kafka.svc:9092"
