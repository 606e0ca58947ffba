"""A pod under the restricted profile that runs one program with the platform's own image."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from cluster.release import Json, Release

CLIENT = {"podium.dev/client": "true"}
# Where every program finds what signs the certificate of the gateway.
AUTHORITY = "/etc/podium/gateway"
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
    *,
    of: str = "podium-gateway",
    claims: dict[str, str] | None = None,
) -> Iterator[None]:
    """Starts it in a Deployment's image, with claims by their paths; deleted in the end."""
    mounted = claims or {}
    container = {
        "env": [{"name": key, "value": value} for key, value in (environment or {}).items()],
        "volumeMounts": [
            {"name": "authority", "mountPath": AUTHORITY, "readOnly": True},
            *({"name": name, "mountPath": path} for path, name in mounted.items()),
        ],
    }
    authority = {
        "secretName": "podium-gateway-tls",
        "items": [{"key": "ca.crt", "path": "ca.crt"}],
    }
    volumes = [
        {"name": "authority", "secret": authority},
        *(
            {"name": name, "persistentVolumeClaim": {"claimName": name}}
            for name in mounted.values()
        ),
    ]
    ran = (name, image_of(release, of), command, labels)
    with started(release, *ran, container=container, volumes=volumes):
        yield


@contextmanager
def started(
    place: Release,
    name: str,
    image: str,
    command: list[str],
    labels: Mapping[str, str],
    *,
    container: Json | None = None,
    volumes: Sequence[Json] = (),
) -> Iterator[None]:
    """A pod of one container in the namespace of `place`; deleted in the end."""
    program = {
        "name": "program",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "securityContext": RESTRICTED,
    }
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "restartPolicy": "Never",
            "containers": [program | (container or {})],
            "volumes": list(volumes),
        },
    }
    place.kubectl("create", "-f", "-", stdin=json.dumps(body))
    try:
        yield
    finally:
        place.kubectl("delete", "pod", name, "--wait=false")


def image_of(release: Release, deployment: str) -> str:
    path = "jsonpath={.spec.template.spec.containers[0].image}"
    return release.kubectl("get", "deployment", deployment, "-o", path)


def said(release: Release, name: str, timeout_s: int = 120) -> str:
    release.kubectl(
        "wait",
        "--for=jsonpath={.status.phase}=Succeeded",
        f"pod/{name}",
        f"--timeout={timeout_s}s",
    )
    return release.kubectl("logs", name).strip()
