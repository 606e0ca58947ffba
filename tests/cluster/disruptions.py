import time

from cluster.finding import require
from cluster.load import load
from cluster.release import Release, run
from cluster.tasks import first_task

AT_ONCE = 3


def killed(release: Release) -> str:
    """Each Deployment's pod is killed without notice while episodes run: none is lost."""
    names = release.deployments()
    began = time.monotonic()
    with load(release, "episodes", 15 * len(names), AT_ONCE) as running:
        for name in names:
            _kill(release, name)
            release.wait_for(name)
        took_s = time.monotonic() - began
        answered = running.ended()
    return f"{len(names)} killed in {took_s:.0f} s, {answered}"


def drained(release: Release) -> str:
    """Services leave their node by eviction, as a drain asks for it, while episodes run."""
    names = release.deployments()
    nodes = {pod["spec"]["nodeName"] for pod in release.pods()}
    services = ",".join(name.removeprefix("podium-") for name in names)
    try:
        with load(release, "episodes", 60, AT_ONCE) as running:
            for node in nodes:
                selector = f"--pod-selector=app.kubernetes.io/component in ({services})"
                run("kubectl", "drain", node, selector, "--delete-emptydir-data", "--timeout=300s")
                # The only node would leave them without a place.
                run("kubectl", "uncordon", node)
            for name in names:
                release.wait_for(name)
            answered = running.ended()
    finally:
        for node in nodes:
            run("kubectl", "uncordon", node)
    return f"{len(nodes)} nodes, {answered}"


def rolled_back(release: Release) -> str:
    before = _templates(release)
    revision = release.revision()
    release.upgrade("--set", "monitoring.logLevel=DEBUG")
    for name in release.deployments():
        release.wait_for(name)
    require(_templates(release) != before, "the upgrade changed nothing")
    release.helm("rollback", str(revision), "--wait", "--timeout=10m")
    require(_templates(release) == before, "the rollback left other pods")
    first_task(release)
    return f"{len(before)} Deployments changed and back, then a task"


def _templates(release: Release) -> dict[str, object]:
    return {
        one["metadata"]["name"]: one["spec"]["template"]
        for one in release.items("deployments.apps")
    }


def _kill(release: Release, deployment: str) -> None:
    pods = ("pods", "-l", f"app.kubernetes.io/component={deployment.removeprefix('podium-')}")
    release.kubectl("delete", *pods, "--force", "--grace-period=0")
    # Until then its Deployment may not have noticed.
    time.sleep(2)
