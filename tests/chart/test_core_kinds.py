import json
from functools import cache

import kubernetes_validate
import pytest
from kubernetes_validate import utils

from chart.rendering import Json, cases, label, of_kind, parsed, render, rendered

# It would parse a version's megabytes of definitions for every object.
utils.schema_contents = cache(utils.schema_contents)

VERSIONS = ("1.30", "1.37")
BUILT_IN_GROUPS = {
    "v1",
    "apps/v1",
    "autoscaling/v2",
    "batch/v1",
    "networking.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
}


@cache
def built_in_objects() -> tuple[tuple[str, Json], ...]:
    found = {}
    for case, _ in cases():
        for obj in rendered(case):
            run = obj.get("data", {}).get("run.yaml") if obj["kind"] == "ConfigMap" else None
            for one in (obj, *(parsed(run) if run else ())):
                if one["apiVersion"] in BUILT_IN_GROUPS:
                    found[json.dumps(one, sort_keys=True)] = (case, one)
    return tuple(found.values())


@pytest.mark.parametrize("version", VERSIONS)
def test_every_built_in_object_is_strictly_valid(version: str) -> None:
    assert not [
        f"{case}: {label(obj)}: {fault}"
        for case, obj in built_in_objects()
        if (fault := rejection(obj, version))
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_tenant_chart_is_strictly_valid(version: str) -> None:
    for values in ({}, {"namespace": {"create": True}, "networkPolicy": {"toolPorts": [8080]}}):
        objects = [
            obj for obj in render(values, "podium-tenant") if obj["apiVersion"] in BUILT_IN_GROUPS
        ]
        assert {"ResourceQuota", "NetworkPolicy"} <= {obj["kind"] for obj in objects}
        assert not [rejection(obj, version) for obj in objects if rejection(obj, version)]


def test_every_api_version_is_known() -> None:
    custom = {
        obj["apiVersion"]
        for case, _ in cases()
        for obj in rendered(case)
        if obj["apiVersion"] not in BUILT_IN_GROUPS
    }
    assert custom == {
        "cert-manager.io/v1",
        "external-secrets.io/v1",
        "gateway.networking.k8s.io/v1",
        "kafka.strimzi.io/v1",
        "keda.sh/v1alpha1",
        "kueue.x-k8s.io/v1beta2",
        "monitoring.coreos.com/v1",
        "serving.kserve.io/v1alpha1",
        "serving.kserve.io/v1alpha2",
        "serving.kserve.io/v1beta1",
        "temporal.io/v1alpha1",
        "trainer.kubeflow.org/v1alpha1",
    }


def test_the_validator_is_strict() -> None:
    service = json.loads(json.dumps(of_kind(rendered("defaults"), "Service")[0]))
    service["spec"]["portss"] = []
    assert rejection(service, "1.30")


def rejection(obj: Json, version: str) -> str:
    try:
        kubernetes_validate.validate(obj, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{'/'.join(map(str, error.path))}: {error.message}"
    return ""
