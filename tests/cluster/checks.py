"""The rows of the table: each says what holds, or raises with what does not."""

import json
import re
import time
from collections.abc import Callable
from decimal import Decimal

from cluster.release import Json, Release, run

Check = Callable[[Release], str]
# A pod under the restricted profile that tries one address from inside.
REACH = (
    "import socket, sys\n"
    "try: socket.create_connection((sys.argv[1], int(sys.argv[2])), 4); print('reached')\n"
    "except OSError as error: print('refused', type(error).__name__)\n"
)
LEFT_BY_DESIGN = {"podium-databases", "podium-identity", "podium-api-keys", "podium-postgres-admin"}


class NotSo(Exception):
    """What was found instead."""


def installed(release: Release) -> str:
    """One command, on an empty namespace."""
    release.install()
    return "charts/podium with profiles/evaluation.yaml"


def admitted(release: Release) -> str:
    """Every pod is admitted under the restricted profile."""
    rejected = [
        event["message"] for event in release.items("events") if event["reason"] == "FailedCreate"
    ]
    _require(not rejected, "; ".join(rejected[:3]))
    return f"{len(release.items('pods'))} pods, none rejected"


def made(release: Release) -> str:
    """The first printed command ends: databases, keys, prices and tools are made."""
    run("bash", "-c", release.printed_commands()[0])
    log = release.kubectl("logs", "-l", "app.kubernetes.io/component=bootstrap", "--tail=-1")
    _require("ready" in log.splitlines()[-1], log)
    return f"{len(log.splitlines()) - 1} lines of what was made"


def first_task(release: Release) -> str:
    """The second printed command answers by the bundled policy, and the answer has a price."""
    # The answer goes to stdout, the turns and what they cost to stderr.
    said = run("bash", "-c", f"exec 2>&1; {release.printed_commands()[1]}")
    _require("Ouagadougou" in said, said)
    _require("unknown price" not in said, said)
    cost = re.search(r"\$(\d+\.\d+)", said)
    _require(cost is not None and Decimal(cost.group(1)) > 0, said)
    return " ".join(said.split())[-100:]


def ready(release: Release) -> str:
    """Every pod is ready, and none was started again."""
    pods = release.pods()
    for pod in pods:
        for each in pod["status"].get("containerStatuses", []):
            name = pod["metadata"]["name"]
            _require(each["ready"], f"{name} is not ready")
            _require(
                each["restartCount"] == 0, f"{name} was started {each['restartCount']} times again"
            )
    return f"{len(pods)} pods"


def reach(release: Release) -> str:
    """Who may reaches whom, and nobody else."""
    tried = {
        ("stranger", "podium-postgres", 5432): "refused",
        ("stranger", "podium-model-server", 8080): "refused",
        ("stranger", "podium-gateway", 8080): "refused",
        ("client", "podium-gateway", 8080): "reached",
        ("client", "podium-cost-ledger", 50054): "refused",
    }
    for (who, host, port), expected in tried.items():
        found = _reach(release, who, host, port)
        _require(found.startswith(expected), f"{who} to {host}:{port}: {found}")
    return f"{len(tried)} connections tried"


def _reach(release: Release, who: str, host: str, port: int) -> str:
    gateway: Json = release.items("deployments.apps")[0]["spec"]["template"]["spec"]["containers"][
        0
    ]
    name = f"{who}-{host}-{port}"
    labels = {"podium.dev/client": "true"} if who == "client" else {}
    restricted = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "reach",
        "image": gateway["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-c", REACH, host, str(port)],
        "securityContext": restricted,
    }
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    release.kubectl("create", "-f", "-", stdin=json.dumps(body))
    try:
        release.kubectl(
            "wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{name}", "--timeout=120s"
        )
        return release.kubectl("logs", name).strip()
    finally:
        release.kubectl("delete", "pod", name, "--wait=false")


def tested(release: Release) -> str:
    """`helm test` passes."""
    said = release.helm("test")
    _require(said.count("Succeeded") >= 1 and "Failed" not in said, said)
    return f"{said.count('Succeeded')} tests"


def upgraded(release: Release) -> str:
    """An upgrade with the same values restarts nothing."""
    before = {pod["metadata"]["uid"] for pod in release.pods()}
    release.upgrade()
    # What would restart has a new template at once.
    time.sleep(5)
    after = {pod["metadata"]["uid"] for pod in release.pods()}
    _require(before == after, f"{len(after - before)} pods are new")
    return f"{len(after)} pods as before"


def uninstalled(release: Release) -> str:
    """What stays is what data needs: Secrets and the list of bundled tools."""
    release.helm("uninstall", "--wait")
    kinds = "deployments,statefulsets,services,jobs,networkpolicies,roles,configmaps,secrets"
    left = {one["metadata"]["name"] for one in release.items(kinds)} - {"kube-root-ca.crt"}
    unexpected = left - LEFT_BY_DESIGN - {"podium-bundled"}
    _require(not unexpected, f"left: {', '.join(sorted(unexpected))}")
    return f"left: {', '.join(sorted(left))}"


def _require(holds: bool, found: str) -> None:
    if not holds:
        raise NotSo(found)


CHECKS: dict[str, Check] = {
    "one helm install": installed,
    "admitted under restricted Pod Security": admitted,
    "databases, keys, prices and tools are made": made,
    "a first task is answered and priced": first_task,
    "every pod is ready, none restarted": ready,
    "network: who reaches whom": reach,
    "helm test": tested,
    "upgrade with the same values": upgraded,
    "uninstall": uninstalled,
}
