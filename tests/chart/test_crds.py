import copy
import json
from functools import cache
from typing import Any

import kubernetes_validate
import pytest
import yaml
from helm_python import HelmError
from jsonschema import Draft202012Validator
from kubernetes_validate import utils

from chart.crd_schemas import holds
from chart.rendering import Json, cases, label, of_kind, parsed, render, rendered
from integration.podium_cli.tools.test_kubernetes_objects import OBJECTS

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


CRDS = {one["spec"]["names"]["plural"]: one for one in render({}, "podium-crds")}


def schema(plural: str) -> Json:
    [version] = CRDS[plural]["spec"]["versions"]
    found: Json = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def problems(plural: str, spec: Json) -> list[str]:
    found = [error.message for error in Draft202012Validator(schema(plural)).iter_errors(spec)]
    if found:
        return found
    rules = schema(plural).get("x-kubernetes-validations", [])
    # Those of a change see the object before it.
    now = [rule for rule in rules if "oldSelf" not in rule["rule"]]
    return [rule["message"] for rule in now if not holds(rule["rule"], spec)]


@pytest.mark.parametrize("plural", OBJECTS)
def test_what_the_platform_takes_the_crd_takes(plural: str) -> None:
    assert problems(plural, OBJECTS[plural][1]) == []


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("tools", {"description": ""}, "non-empty"),
    ("tools", {"name": "find-part"}, "does not match"),
    ("tools", {"parameters_json_schema": "{}"}, "give one of them"),
    ("policies", {"preset": "cheap"}, "is not one of"),
    ("policies", {"price_ceiling": "cheap"}, "does not match"),
    ("pricelists", {"prices": []}, "non-empty"),
    ("pricelists", {"prices": [{"sku": "own/a", "components": []}]}, "non-empty"),
    ("budgets", {"window": "rolling"}, "has a rolling_length"),
    ("budgets", {"scope": "team"}, "scope_id names"),
    ("budgets", {"scope_id": "blue"}, "scope_id names"),
    ("budgets", {"hard_limit": 5}, "is not of type"),
]


@pytest.mark.parametrize(("plural", "change", "words"), WRONG)
def test_what_the_registry_would_reject_the_api_server_rejects(
    plural: str, change: Json, words: str
) -> None:
    spec = copy.deepcopy(OBJECTS[plural][1]) | change
    assert any(words in line for line in problems(plural, spec)), problems(plural, spec)


@pytest.mark.parametrize("plural", OBJECTS)
def test_uninstalling_keeps_the_objects(plural: str) -> None:
    crd = CRDS[plural]
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    [version] = crd["spec"]["versions"]
    assert version["subresources"] == {"status": {}}
    columns = [one["name"] for one in version["additionalPrinterColumns"]]
    assert columns[0] == "Ready"
    assert columns[-1] == "Age"


def test_the_controller_may_touch_its_objects_and_one_secret_in_named_namespaces_alone() -> None:
    objects = render({"controller": {"enabled": True, "namespaces": ["apps"]}})
    roles = [
        one for one in of_kind(objects, "Role") if one["metadata"]["name"] == "podium-controller"
    ]
    assert [one["metadata"]["namespace"] for one in roles] == ["apps", "podium"]
    for role in roles:
        *own, secrets = role["rules"]
        assert {group for rule in own for group in rule["apiGroups"]} == {"podium.dev"}
        assert secrets["resourceNames"] == ["podium-tenant"]
        assert secrets["verbs"] == ["get"]
    assert {plural for rule in roles[0]["rules"][:1] for plural in rule["resources"]} == set(CRDS)
    assert not of_kind(objects, "ClusterRole")


def test_no_secret_that_the_controller_reads_has_the_platform_administrators_key() -> None:
    tenants = {"secretName": "podium-api-keys", "key": "tenant"}
    objects = render({"controller": {"enabled": True, "keySecret": tenants}})
    [plan] = [one for one in of_kind(objects, "ConfigMap") if "plan.yaml" in one["data"]]
    contents = yaml.safe_load(plan["data"]["plan.yaml"])["contents"]
    assert contents["tenant_key_secret"] == tenants["secretName"]
    platforms = contents["platform_key_secret"]
    readers = {
        role["metadata"]["name"]
        for role in of_kind(objects, "Role")
        for rule in role["rules"]
        if "secrets" in rule["resources"] and platforms in rule.get("resourceNames", [])
    }
    assert platforms != tenants["secretName"]
    # The Job that makes it, and no other account.
    assert readers == {"podium-bootstrap"}
    with pytest.raises(HelmError, match="key of the platform's administrator"):
        render({"controller": {"enabled": True, "keySecret": {**tenants, "secretName": platforms}}})
