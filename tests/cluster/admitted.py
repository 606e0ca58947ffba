"""Outsiders that the chart admits: from pods with their labels, in namespaces of their names."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cluster.finding import require
from cluster.pods import CLIENT, image_of, said, started
from cluster.release import Json, Release, run

REACH = (Path(__file__).parent / "programs/reach.py").read_text()
METRICS = 9090
SERVERS = {"postgres": 5432, "temporal": 7233, "kafka": 9092}
ENGINE = ("model-server", 8080)
SERVICES = {
    "gateway": 8080,
    "episodes": 50055,
    "orchestrator-inference": 50053,
    "tool-registry": 50052,
    "cost-ledger": 50054,
    "tool-adapters": 50056,
}
SCRAPED = {(name, METRICS) for name in (*SERVICES, "episode-worker")} | {ENGINE}
ADDRESSES = {*SERVICES.items(), *SERVERS.items(), *SCRAPED}
POLICIES = "templates/components/networkpolicy.yaml"
Address = tuple[str, int]


@dataclass(frozen=True)
class Outsider:
    namespace: str
    reaches: frozenset[Address] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)


def outsiders(prefix: str) -> dict[str, Outsider]:
    """The operators with the labels and namespaces of the chart's own values, and strangers."""
    apps, gateway = f"{prefix}-apps", frozenset({("gateway", 8080)})
    controller = {"app.kubernetes.io/name": "temporal-worker-controller"}
    return {
        "keda": Outsider("keda", frozenset({("episodes", METRICS)}), {"app": "keda-operator"}),
        "worker-controller": Outsider(apps, frozenset({("temporal", 7233)}), controller),
        "scraper": Outsider(f"{prefix}-monitoring", frozenset(SCRAPED)),
        "ingress": Outsider(f"{prefix}-ingress", gateway),
        "client": Outsider(apps, gateway, CLIENT),
        "stranger": Outsider(apps),
        "stranger-beside-keda": Outsider("keda"),
    }


def admitted_reach(release: Release) -> str:
    """Each reaches what it may, and nothing else; the policies alone are those of other values."""
    tried = outsiders(release.namespace)
    pods = {
        pod["metadata"]["labels"]["app.kubernetes.io/component"]: pod["status"]["podIP"]
        for pod in release.pods()
    }
    image = image_of(release, "podium-gateway")
    with (
        _namespaces({one.namespace for one in tried.values()}),
        _policies(release),
        ExitStack() as running,
    ):
        for name, one in tried.items():
            place = Release(one.namespace)
            words = [_words(ADDRESSES, pods), _words(one.reaches, pods)]
            program = ["python", "-c", REACH, *words]
            running.enter_context(started(place, f"tries-{name}", image, program, one.labels))
        for name, one in tried.items():
            found = json.loads(said(Release(one.namespace), f"tries-{name}"))
            reached = {(component, port) for component, _, port in found}
            require(
                reached == one.reaches,
                f"{name} reaches {sorted(reached)} instead of {sorted(one.reaches)}",
            )
    return f"{', '.join(tried)}: {len(ADDRESSES)} addresses each"


def _words(addresses: set[Address] | frozenset[Address], pods: Mapping[str, str]) -> str:
    return json.dumps([[name, pods[name], port] for name, port in sorted(addresses)])


def admitting(prefix: str) -> Json:
    """Values by their paths that admit every outsider, beside the chart's own."""

    def of(name: str) -> Json:
        return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}

    return {
        "integrations.keda.enabled": True,
        "integrations.temporalWorkerController.enabled": True,
        "monitoring.from": [of(f"{prefix}-monitoring")],
        "ingress.from": [of(f"{prefix}-ingress")],
        "networkPolicy.clientNamespaces": [f"{prefix}-apps"],
    }


@contextmanager
def _policies(release: Release) -> Iterator[None]:
    values = release.json_values | admitting(release.namespace)
    other = Release(release.namespace, release.values, values)
    release.kubectl("replace", "-f", "-", stdin=other.template({}, "-s", POLICIES))
    try:
        yield
    finally:
        release.kubectl("replace", "-f", "-", stdin=release.template({}, "-s", POLICIES))


@contextmanager
def _namespaces(names: set[str]) -> Iterator[None]:
    """Kinds that are not there, such as KEDA's without KEDA, are removed in the end."""
    there = set(run("kubectl", "get", "namespaces", "-o", "name").split())
    made = [Release(name) for name in sorted(names) if f"namespace/{name}" not in there]
    for each in made:
        each.make_namespace()
    try:
        yield
    finally:
        for each in made:
            each.remove()
