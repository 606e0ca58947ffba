import json
import time

from cluster.finding import NotSo, require
from cluster.release import Json, Release, served

VALUES = {
    "integrations.kserve.enabled": "true",
    "inference.mode": "inferenceService",
    "inference.modelUri": "pvc://podium-models/orchestrator",
}
WAIT_S = 60.0


def engine_made(release: Release) -> str:
    """With every argument of the chart's runtime; its pod, which needs weights, is not awaited."""
    if not served("inferenceservices.serving.kserve.io"):
        return "not tried: KServe is not served"
    beside = release.beside("kserve")
    beside.make_namespace()
    try:
        made = beside.template(VALUES, "-s", "templates/inference/inferenceservice.yaml")
        names = beside.kubectl("apply", "-f", "-", "-o", "name", stdin=made).split()
        [service] = [name for name in names if "inferenceservice" in name]
        expected = _runtime(beside, service.partition("/")[2])
        found = _deployment(beside)["args"]
        absent = [each for each in expected if each not in found]
        require(not absent, f"without {absent}: {found}")
        beside.kubectl("delete", service, "--timeout=60s")
    finally:
        beside.remove()
    return f"{service.partition('/')[2]} with {len(expected)} arguments"


def _runtime(beside: Release, service: str) -> list[str]:
    found = json.loads(beside.kubectl("get", "servingruntimes", "-o", "json"))["items"]
    [container] = found[0]["spec"]["containers"]
    return [each.replace("{{.Name}}", service) for each in container["args"]]


def _deployment(beside: Release) -> Json:
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        for one in beside.items("deployments.apps"):
            containers: list[Json] = one["spec"]["template"]["spec"]["containers"]
            return containers[0]
        time.sleep(1)
    services = beside.kubectl("describe", "inferenceservices")
    raise NotSo(f"KServe made no Deployment: {services[-1500:]}")
