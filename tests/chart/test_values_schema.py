import copy
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from helm_python import HelmError
from jsonschema import Draft202012Validator

from chart.rendering import CHARTS, PROFILES, Json, cases, chart, profile, render

# Path, value, what the message names; an empty third means the path itself.
BAD_VALUES: list[tuple[str, Any, str]] = [
    # Unknown keys, at every depth: a misspelt one is never ignored.
    ("compnents", {}, "'compnents'"),
    ("components.gatway", {}, "'gatway'"),
    ("components.gateway.replica", 2, "'replica'"),
    ("components.gateway.image.tga", "1", "'tga'"),
    ("components.gateway.autoscaling.max", 3, "'max'"),
    ("components.gateway.drain.wait", 3, "'wait'"),
    ("componentDefaults.calls", [], "'calls'"),
    ("integrations.istio", {"enabled": True}, "'istio'"),
    ("integrations.keda.on", True, "'on'"),
    ("endpoints.redis", {}, "'redis'"),
    ("inference.engine.imge", {}, "'imge'"),
    ("inference.serviceAccountAnnotations.role", 3, ""),
    ("kafka.trajectories.partition", 3, "'partition'"),
    ("tls.enable", True, "'enable'"),
    ("monitoring.port", 9090, "'port'"),
    # Secrets in clear: there is no place for them.
    ("components.gateway.database", "postgresql://podium:hunter2@db/gateway", ""),
    ("components.gateway.database.value", "postgresql://db", "'value'"),
    ("components.gateway.database.secretName", "", ""),
    ("components.gateway.signingKey.key", "with space", ""),
    ("components.gateway.settings.database_url", "postgresql://db", "database_url"),
    ("components.gateway.env.OPENAI_API_KEY", "sk-1", "OPENAI_API_KEY"),
    ("components.tool-adapters.settings.secret_openai_key", "sk-1", "secret_openai_key"),
    ("components.tool-adapters.secretSettings.secret_openai_key", "sk-1", ""),
    ("components.cost-ledger.secretFiles.anchor_key_file", "-----BEGIN", ""),
    ("components.cost-ledger.secretFiles.Anchor", {"secretName": "a", "key": "b"}, "Anchor"),
    ("inference.apiKey", "sk-1", ""),
    ("inference.apiKey.value", "sk-1", "/inference/apiKey"),
    ("inference.engine.env.HF_TOKEN", "hf_1", "HF_TOKEN"),
    ("identity.verifyKeys", "{}", ""),
    ("components.gateway.database.externalSecret", {"store": "vault"}, "'remoteKey'"),
    ("components.gateway.database.externalSecret", {"store": "v", "remoteKey": "k", "key": 1}, ""),
    # Wrong types.
    ("components.gateway.replicas", "three", ""),
    ("components.gateway.replicas", -1, ""),
    ("components.gateway.replicas", 1.5, ""),
    ("components.gateway.port", 70000, ""),
    ("components.gateway.protocol", "tcp", ""),
    ("components.gateway.calls", "episodes", ""),
    ("components.gateway.calls", ["episode"], ""),
    ("components.gateway.calls", ["episodes", "episodes"], ""),
    ("components.gateway.args", [], ""),
    ("components.gateway.settings", ["a"], ""),
    ("components.gateway.settings.Keepalive", 3, "Keepalive"),
    ("components.gateway.env.lower", "x", "lower"),
    ("components.gateway.env.NUMBER", 3, ""),
    ("components.gateway.image.repository", "Podium/Gateway", ""),
    ("components.gateway.image.digest", "sha256:123", ""),
    ("components.gateway.image.pullPolicy", "Sometimes", ""),
    ("components.gateway.resources.limits.memory", "lots", ""),
    ("components.gateway.resources.limits.memory", 512, ""),
    ("components.gateway.resources.maximum", {}, "'maximum'"),
    ("components.gateway.tolerations", [{"effect": "Never"}], ""),
    ("components.gateway.nodeSelector.gpu", True, ""),
    ("components.gateway.topologySpread.zone", "Yes", ""),
    ("components.gateway.podDisruptionBudget.maxUnavailable", 0, ""),
    ("components.gateway.terminationGracePeriodSeconds", 0, ""),
    ("components.gateway.autoscaling.cpuUtilization", 101, ""),
    ("components.gateway.autoscaling.kafkaLag", {"consumerGroup": "g"}, "'kafkaLag'"),
    ("components.gateway.extraVolumeMounts", [{"name": "x"}], "'mountPath'"),
    ("fullnameOverride", "Podium_1", ""),
    ("imageRegistry", "registry.example.com/", ""),
    ("imagePullSecrets", ["pull"], ""),
    ("commonLabels.team", 3, ""),
    ("integrations.kserve.enabled", "yes", ""),
    ("integrations.kserve.version", "0.14", ""),
    ("integrations.kserve.version", 0.21, ""),
    ("endpoints.temporal.target", "http://temporal:7233", ""),
    ("endpoints.temporal.target", "temporal", ""),
    ("endpoints.kafka.bootstrap", "kafka", ""),
    ("endpoints.otlp.endpoint", "collector:4317", ""),
    ("endpoints.postgres.port", "5432", ""),
    ("endpoints.postgres.peers", [{}], ""),
    ("endpoints.internet.except", ["10.0.0.0"], ""),
    ("endpoints.internet.ports", [], ""),
    ("tls.issuer.kind", "Vault", ""),
    ("tls.duration", "30 days", ""),
    ("bootstrap.certificates.schedule", "daily", ""),
    ("inference.mode", "knative", ""),
    ("inference.modelUri", "orchestrator", ""),
    ("inference.external.baseUrl", "engine:8000", ""),
    ("inference.minReplicas", 0, ""),
    ("inference.adapters.maxRank", 7, ""),
    ("inference.acceleratorsPerReplica", 0, ""),
    ("inference.terminationGracePeriodSeconds", 5, ""),
    ("accelerator.profile", "tpu", ""),
    ("accelerator.resourceName", "gpu", ""),
    ("accelerator.rollout.maxSurge", -1, ""),
    ("kafka.trajectories.partitions", 0, ""),
    ("kafka.trajectories.maxMessageBytes", 1024, ""),
    ("training.command", [], ""),
    ("training.nodes", 0, ""),
    ("training.model", "s3://models/policy", "training.model"),
    ("training.config.steps", 0, ""),
    ("training.config.steps", "many", ""),
    ("training.config.processes", 8, "'processes'"),
    ("training.config.step.learning_rat", 0.1, "'learning_rat'"),
    ("training.config.step.loss", "ppo", ""),
    ("training.submitters", [{"kind": "Robot", "name": "r"}], ""),
    ("monitoring.logLevel", "TRACE", ""),
    ("monitoring.runbooksUrl", "docs/runbooks", ""),
    ("monitoring.scrapeInterval", "often", ""),
    ("ingress.host", "", ""),
    ("ingress.enabled", True, "ingress.from"),
    ("integrations.prometheusOperator.enabled", True, "monitoring.from"),
    ("networkPolicy.dnsPorts", [], ""),
    ("networkPolicy.dnsPorts", ["dns"], ""),
    ("networkPolicy.clientNamespaces", ["Apps"], ""),
    ("podSecurity.user", 0, ""),
    ("podSecurity.uid", 1000, "'uid'"),
    ("bootstrap.databases.admin", "postgresql://db", ""),
    ("bootstrap.databases.admin.url", "postgresql://db", "'url'"),
    ("bootstrap.tenant.name", "", ""),
    ("bootstrap.temporal.retentionHours", 0, ""),
    ("bootstrap.timeoutSeconds", 5, ""),
    ("bootstrap.env.NUMBER", 3, ""),
    ("bootstrap.extraVolumes", [{"secret": {"secretName": "ca"}}], "'name'"),
    ("bootstrap.prices.sku", "a", "'sku'"),
    ("bootstrap.policies", ["frugal"], ""),
    ("bootstrap.budgets", [{"id": "everyday"}], "inference.sku"),
    ("workerVersions.steps", [], ""),
    ("workerVersions.steps", [{"rampPercentage": 100, "pauseDuration": "1m"}], ""),
    ("networkPolicy.enabled", "false", ""),
    # What a schema cannot say: the templates do, naming the key.
    ("inference.mode", "external", "inference.external.baseUrl"),
    ("inference.modelUri", "s3://bucket/model", "inference.modelUri"),
    ("inference.minReplicas", 3, "inference.maxReplicas"),
    ("accelerator.rollout.maxUnavailable", 0, "accelerator.rollout"),
    ("kafka.trajectories.minInSyncReplicas", 4, "kafka.trajectories.minInSyncReplicas"),
    ("kafka.alerts.replicas", 1, "kafka.alerts.minInSyncReplicas"),
    ("components.gateway.drain.graceSeconds", 300, "terminationGracePeriodSeconds"),
    ("components.gateway.autoscaling.minReplicas", 50, "autoscaling.maxReplicas"),
    ("components.gateway.database", None, "components.gateway.database"),
    ("components.episodes.port", None, "components.episodes.port"),
]


def nested(path: str, value: Any) -> Json:
    *parents, last = path.split(".")
    found: Json = {last: value}
    for key in reversed(parents):
        found = {key: found}
    return found


@cache
def schema(name: str = "podium") -> Json:
    found: Json = json.loads((CHARTS / name / "values.schema.json").read_text())
    return found


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_passes(name: str) -> None:
    chart().validate_schema(profile(name))


@pytest.mark.parametrize(
    ("path", "value", "words"), BAD_VALUES, ids=[f"{path}={value}" for path, value, _ in BAD_VALUES]
)
def test_a_mistake_is_rejected_with_its_path(path: str, value: Any, words: str) -> None:
    with pytest.raises(HelmError) as rejection:
        chart().render(nested(path, value), name="podium", namespace="podium")
    wanted = words or "/" + path.replace(".", "/")
    assert wanted in str(rejection.value)


def test_every_object_of_the_schema_is_closed() -> None:
    assert not [where for where, node in objects(schema()) if not is_closed(node)]


def test_every_property_is_explained() -> None:
    table = (CHARTS / "podium/README.md").read_text()
    named = [key for key in schema()["properties"] if key not in ("global", "enabled")]
    assert not [key for key in named if f"`{key}" not in table and not is_moved(key)]


def is_moved(key: str) -> bool:
    return bool(schema()["properties"][key].get("deprecated"))


@pytest.mark.parametrize(
    ("name", "needed"),
    [("podium", "minimal-cpu"), ("podium-tenant", ""), ("podium-crds", "")],
)
def test_values_of_a_parent_chart_pass(name: str, needed: str) -> None:
    """Public report 66: Helm gives a dependency its own condition, and `global`."""
    values = profile(needed) if needed else {"tenant": "acme"} if name == "podium-tenant" else {}
    for enabled in (True, False):
        whole = chart(name).merge_values({**values, "enabled": enabled, "global": {"a": 1}})
        assert not list(Draft202012Validator(schema(name)).iter_errors(whole))
        assert render({**values, "enabled": enabled, "global": {"a": 1}}, name) == render(
            values, name
        )
    with pytest.raises(HelmError, match="enabled"):
        render({**values, "enabled": "yes"}, name)


@pytest.mark.parametrize("name", ["podium", "podium-tenant", "podium-crds"])
def test_the_schema_itself_is_one(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))


def test_a_type_that_is_dropped_is_noticed() -> None:
    """Every constraint of every key has a wrong value that only it rejects."""
    values = chart().values
    unnoticed = []
    for path, node in typed_properties(schema(), values):
        wrong = copy.deepcopy(values)
        put(wrong, path, WRONG[node["type"]])
        if not rejected(schema(), wrong):
            unnoticed.append("the schema takes a wrong " + ".".join(path))
        if "enum" in node:
            continue  # It rejects other types by itself.
        loose = copy.deepcopy(schema())
        drop_type(loose, path)
        if rejected(loose, wrong):
            unnoticed.append("something else rejects a wrong " + ".".join(path))
    assert not unnoticed


# A value of another type that no other word of a constraint speaks about.
WRONG: dict[str, Any] = {
    "string": ["not a string"],
    "integer": "not a number",
    "boolean": "not a boolean",
    "array": "not a list",
    "object": "not a map",
}


def typed_properties(root: Json, values: Json) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Paths of the values' own keys with the type that stands at each."""

    def walk(
        node: Json, value: Any, path: tuple[str, ...]
    ) -> Iterator[tuple[tuple[str, ...], Json]]:
        for key, sub in node.get("properties", {}).items():
            if key in (value or {}) and isinstance(sub.get("type"), str):
                yield (*path, key), sub
                yield from walk(sub, value[key], (*path, key))

    yield from walk(root, values, ())


def put(values: Json, path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        values = values[key]
    values[path[-1]] = value


def drop_type(node: Json, path: tuple[str, ...]) -> None:
    for key in path:
        node = node["properties"][key]
    del node["type"]


def rejected(one: Json, values: Json) -> bool:
    return not Draft202012Validator(one).is_valid(values)


def objects(node: Any, where: str = "") -> Iterator[tuple[str, Json]]:
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield where, node
        for key, sub in node.items():
            yield from objects(sub, f"{where}/{key}")
    if isinstance(node, list):
        for index, sub in enumerate(node):
            yield from objects(sub, f"{where}/{index}")


def is_closed(node: Json) -> bool:
    """Closed, or a map whose values have a schema of their own, or said to be Kubernetes' own."""
    return (
        node.get("additionalProperties") is False
        or isinstance(node.get("additionalProperties"), dict)
        or node.get("maxProperties") == 0
        or node in KUBERNETES_OWN
    )


# Written as Kubernetes writes them and checked by it: rules, volumes, mounts; Helm's `global`;
# documents that the Job of bootstrap reads.
KUBERNETES_OWN: list[Json] = [
    {"type": "object"},
    schema()["$defs"]["document"],
    {"type": "object", "required": ["name"]},
    {"type": "object", "required": ["name", "mountPath"]},
]


def test_every_case_passes_in_python_as_well_as_in_helm() -> None:
    check = Draft202012Validator(schema())
    for case, values in cases():
        whole = chart().merge_values(values)
        assert not list(check.iter_errors(whole)), case
