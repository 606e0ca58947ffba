import json
import re
from functools import cache
from typing import Any

import pytest
import yaml
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY

from chart.rendering import CHARTS, ROOT, Json, named, of_kind, rendered
from podium_operations.cluster.requirements import integrations

# Metrics of others, by the program that exports them.
FOREIGN = {
    "Prometheus": {"up"},
    "vLLM": {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
    },
    "kube-state-metrics": {
        "kube_pod_status_phase",
        "kube_pod_container_status_restarts_total",
        "kube_cronjob_created",
        "kube_cronjob_status_last_successful_time",
        "kube_deployment_created",
        "kube_deployment_spec_replicas",
        "kube_deployment_status_replicas",
    },
    "cert-manager": {"certmanager_certificate_expiration_timestamp_seconds"},
}
FOREIGN_LABELS = {
    "app_kubernetes_io_component",
    "container",
    "cronjob",
    "deployment",
    "exported_namespace",
    "le",
    "model_name",
    "name",
    "namespace",
    "phase",
    "pod",
}
METRIC = re.compile(r"\b([a-z_:]+)(?=\{)")
LABELS = re.compile(r"\{([^{}]*)\}|\bby \(([^)]*)\)")


@cache
def own_metrics() -> frozenset[str]:
    registry = yaml.safe_load((ROOT / "docs/telemetry.yaml").read_text())
    reader = PrometheusMetricReader()
    meter = MeterProvider([reader]).get_meter("test")
    for name, metric in registry["metrics"].items():
        if metric.get("kind") == "counter":
            meter.create_counter(name, metric["unit"]).add(1)
        elif metric.get("kind") == "gauge":
            meter.create_gauge(name, metric["unit"]).set(1)
        else:
            meter.create_histogram(name, metric["unit"]).record(1)
    names = {sample.name for family in REGISTRY.collect() for sample in family.samples}
    return frozenset(name for name in names if not name.startswith(("python_", "process_")))


def own_labels() -> set[str]:
    registry = yaml.safe_load((ROOT / "docs/telemetry.yaml").read_text())
    return {name.replace(".", "_") for name in registry["attributes"]}


@cache
def dashboards() -> tuple[Json, ...]:
    return tuple(
        json.loads(path.read_text()) for path in sorted(CHARTS.glob("podium/dashboards/*.json"))
    )


@cache
def alerts() -> tuple[Json, ...]:
    rule = of_kind(rendered("production"), "PrometheusRule")[0]
    return tuple(alert for group in rule["spec"]["groups"] for alert in group["rules"])


def queries() -> list[str]:
    shown = [
        target for one in dashboards() for panel in one["panels"] for target in panel["targets"]
    ]
    return [alert["expr"] for alert in alerts()] + [target["expr"] for target in shown]


def test_every_metric_that_is_asked_for_exists() -> None:
    known = own_metrics() | set().union(*FOREIGN.values())
    asked = {name for query in queries() for name in METRIC.findall(query)}
    assert len(asked) > 5
    assert not asked - known


def test_every_label_that_is_asked_for_exists() -> None:
    for query in queries():
        for matchers, grouping in LABELS.findall(query):
            named = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)
            named += [part.strip() for part in grouping.split(",") if part.strip()]
            assert set(named) <= own_labels() | FOREIGN_LABELS, query


def test_every_alert_links_to_a_runbook_that_names_it() -> None:
    for alert in alerts():
        page = alert["annotations"]["runbook_url"].rpartition("/")[2]
        text = (ROOT / "docs/runbooks" / page).read_text()
        assert alert["alert"] in text
        assert alert["annotations"]["runbook_url"].startswith("https://podium.example.com/docs/")
        assert alert["labels"]["severity"] in ("critical", "warning")


def test_no_runbook_is_forgotten() -> None:
    linked = {alert["annotations"]["runbook_url"].rpartition("/")[2] for alert in alerts()}
    # What an operator does without an alert has a page, too.
    pages = (ROOT / "docs/runbooks").glob("*.md")
    assert linked == {path.name for path in pages if "\nAlerts: " in path.read_text()}


def test_no_placeholder_is_left_and_prometheus_keeps_its_own_templates() -> None:
    text = yaml.safe_dump(list(alerts()))
    assert "$(" not in text
    assert "{{ $value" in text


def test_every_alert_stays_in_its_namespace() -> None:
    assert not [alert["alert"] for alert in alerts() if 'namespace="podium"' not in alert["expr"]]


@pytest.mark.parametrize("profile", ["dev", "production"])
def test_the_prometheus_that_the_doctor_installs_finds_and_reaches_everything(profile: str) -> None:
    """kube-prometheus-stack selects by its release, and scrapes from its namespace."""
    words = integrations()["prometheusOperator"].install.split()
    release, namespace = words[words.index("install") + 1], words[words.index("-n") + 1]
    objects = rendered(profile)
    monitors = of_kind(objects, "ServiceMonitor", "PodMonitor", "PrometheusRule")
    assert monitors
    assert {each["metadata"]["labels"].get("release") for each in monitors} == {release}
    scraper = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    policy = named(objects, "NetworkPolicy", "podium-gateway")["spec"]
    assert scraper in [peer for rule in policy["ingress"] for peer in rule.get("from", ())]


@pytest.mark.parametrize("one", dashboards(), ids=lambda one: one["uid"])
def test_a_dashboard_has_its_own_panels_in_a_grid(one: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in one["panels"]]
    assert len(ids) == len(set(ids))
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in one["panels"]]
    assert len(places) == len(set(places))
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in one["panels"])


def test_grafana_gets_every_dashboard() -> None:
    maps = of_kind(rendered("production"), "ConfigMap")
    data = next(one["data"] for one in maps if one["metadata"]["name"] == "podium-dashboards")
    assert [json.loads(text)["uid"] for text in data.values()] == [
        one["uid"] for one in dashboards()
    ]
