"""A pod under the restricted profile that runs one program with the platform's own image."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from cluster.release import Json, Release

CLIENT = {"podium.dev/client": "true"}
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@contextmanager
def program(
    release: Release,
    name: str,
    command: list[str],
    labels: dict[str, str],
    environment: dict[str, str] | None = None,
) -> Iterator[None]:
    """Starts it; it is deleted in the end."""
    deployments: list[Json] = release.items("deployments.apps")
    image = deployments[0]["spec"]["template"]["spec"]["containers"][0]["image"]
    container = {
        "name": "program",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "env": [{"name": key, "value": value} for key, value in (environment or {}).items()],
        "securityContext": RESTRICTED,
    }
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    release.kubectl("create", "-f", "-", stdin=json.dumps(body))
    try:
        yield
    finally:
        release.kubectl("delete", "pod", name, "--wait=false")


def said(release: Release, name: str, timeout_s: int = 120) -> str:
    """What it wrote, once it has ended well. Raises CommandFailed."""
    release.kubectl(
        "wait",
        "--for=jsonpath={.status.phase}=Succeeded",
        f"pod/{name}",
        f"--timeout={timeout_s}s",
    )
    return release.kubectl("logs", name).strip()
