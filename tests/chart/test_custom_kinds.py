import copy
import json
from typing import Any

import pytest

from chart import crd_schemas
from chart.rendering import ROOT, Json, cases, label, of_kind, parsed, render, rendered
from chart.test_workloads import engine

# Types of the Gateway API are not in the bundle.
NOT_BUNDLED = {"HTTPRoute"}
KINDS = {
    "Certificate",
    "Connection",
    "ExternalSecret",
    "InferenceService",
    "Issuer",
    "KafkaTopic",
    "KafkaUser",
    "LLMInferenceService",
    "LocalQueue",
    "PodMonitor",
    "PrometheusRule",
    "ScaledObject",
    "ServiceMonitor",
    "ServingRuntime",
    "TrainJob",
    "TrainingRuntime",
    "WorkerDeployment",
    "WorkerResourceTemplate",
}


def is_custom(obj: Json) -> bool:
    group = obj["apiVersion"].partition("/")[0]
    return ("." in group and not group.endswith(".k8s.io")) or "kueue" in group


def custom_resources() -> dict[str, tuple[str, Json]]:
    found = {}
    for case, _ in cases():
        for obj in rendered(case):
            for one in (obj, *inside(obj)):
                if is_custom(one) and one["kind"] not in NOT_BUNDLED:
                    found[json.dumps(one, sort_keys=True)] = (case, one)
    return found


def inside(obj: Json) -> list[Json]:
    if obj["kind"] == "ConfigMap" and "run.yaml" in obj["data"]:
        return [named(parsed(obj["data"]["run.yaml"])[0])]
    if obj["kind"] == "WorkerResourceTemplate":
        template = copy.deepcopy(obj["spec"]["template"])
        # The controller fills these in, one per worker version.
        template["spec"]["scaleTargetRef"] = {"name": "filled-in"}
        return [template | {"metadata": {"name": "filled-in"}}]
    return []


def named(obj: Json) -> Json:
    made = obj["metadata"].get("generateName", "") + "x7k2p"
    return {**obj, "metadata": {"name": made, **obj["metadata"]}}


def test_every_custom_resource_is_what_its_operator_takes() -> None:
    found = [
        f"{case}: {label(obj)}: {fault}"
        for case, obj in custom_resources().values()
        for fault in crd_schemas.faults(obj)
    ]
    assert not found


def test_every_kind_the_chart_knows_was_looked_at() -> None:
    assert {obj["kind"] for _, obj in custom_resources().values()} == KINDS


def test_the_tenant_chart_is_what_its_operators_take() -> None:
    values = {"queue": {"enabled": True}, "kafka": {"enabled": True}}
    objects = [obj for obj in render(values, "podium-tenant") if is_custom(obj)]
    assert {obj["kind"] for obj in objects} == {"LocalQueue", "KafkaUser"}
    assert not [fault for obj in objects for fault in crd_schemas.faults(obj)]


BREAKS: list[tuple[str, list[str | int], Any]] = [
    ("InferenceService", ["spec", "predictor", "minReplicas"], "one"),
    ("InferenceService", ["spec", "predictor", "replicas"], 1),
    ("LLMInferenceService", ["spec", "replicas"], 2),
    ("LLMInferenceService", ["spec", "parallelism", "tensor"], 0),
    ("ServingRuntime", ["spec", "containers", 0, "imagge"], "vllm"),
    ("KafkaTopic", ["spec", "partitions"], 0),
    ("KafkaUser", ["spec", "authentication", "type"], "password"),
    ("KafkaUser", ["spec", "authentication"], {"type": "scram-sha-512", "validityDays": 3}),
    ("ScaledObject", ["spec", "triggers", 0, "metadata", "value"], 70),
    ("WorkerDeployment", ["spec", "rollout", "steps"], []),
    ("WorkerDeployment", ["spec", "rollout", "steps", 0, "pauseDuration"], "1s"),
    ("Connection", ["spec", "hostPort"], "temporal"),
    ("WorkerResourceTemplate", ["spec", "temporalWorkerDeploymentRef"], {"name": "other"}),
    ("TrainingRuntime", ["spec", "mlPolicy", "mpi"], {"numProcPerNode": 1}),
    ("TrainJob", ["spec", "runtimeRef", "name"], 3),
    ("ServiceMonitor", ["spec", "endpoints", 0, "interval"], "often"),
    ("PrometheusRule", ["spec", "groups", 0, "rules", 0, "for"], "ten minutes"),
    ("Certificate", ["spec", "privateKey", "rotationPolicy"], "Sometimes"),
    ("ExternalSecret", ["spec", "secretStoreRef", "kind"], "Vault"),
    ("LocalQueue", ["spec", "stopPolicy"], "Never"),
]


@pytest.mark.parametrize(("kind", "path", "value"), BREAKS)
def test_a_deliberate_error_is_noticed(kind: str, path: list[str | int], value: Any) -> None:
    known = [obj for _, obj in custom_resources().values()]
    broken = copy.deepcopy(of_kind(known, kind)[0])
    assert not crd_schemas.faults(broken)
    target: Any = broken
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = value
    assert crd_schemas.faults(broken)


def test_the_manifest_beside_the_chart_is_accepted() -> None:
    objects = parsed((ROOT / "k8s/queues.yaml").read_text())
    assert objects
    for obj in objects:
        assert not crd_schemas.faults(named(obj)), label(obj)


@pytest.mark.parametrize("case", ["kserve", "llmInferenceService", "production"])
def test_an_engine_of_a_policy_version_is_what_kserve_takes(case: str) -> None:
    made = engine(rendered(case))
    assert not crd_schemas.faults(made)
    made["spec"]["unknown"] = 1
    assert crd_schemas.faults(made)
