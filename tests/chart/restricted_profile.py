"""Kubernetes' Pod Security Standard "restricted", as a function.

Source: kubernetes.io/docs/concepts/security/pod-security-standards, version 1.37. Own code
because no checker on PyPI looks into the pods of custom resources.
"""

from collections.abc import Iterator

from chart.pods import containers
from chart.rendering import Json

VOLUME_KINDS = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
SECCOMP = {"RuntimeDefault", "Localhost"}


def violations(spec: Json) -> list[str]:
    return [*_pod(spec), *(line for one in containers(spec) for line in _container(one, spec))]


def _pod(spec: Json) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield f"{field} is on"
    for volume in spec.get("volumes", []):
        if strange := set(volume) - VOLUME_KINDS - {"name"}:
            yield f"volume {volume['name']} is a {strange.pop()}"
    security = spec.get("securityContext", {})
    for field in ("sysctls", "seLinuxOptions", "windowsOptions"):
        if security.get(field):
            yield f"securityContext.{field} is set"


def _container(container: Json, spec: Json) -> Iterator[str]:
    name, pod = container["name"], spec.get("securityContext", {})
    own = container.get("securityContext", {})
    if own.get("privileged"):
        yield f"{name} is privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"{name} may gain privileges"
    if own.get("capabilities", {}).get("drop") != ["ALL"]:
        yield f"{name} keeps capabilities"
    if set(own.get("capabilities", {}).get("add", [])) - {"NET_BIND_SERVICE"}:
        yield f"{name} adds capabilities"
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield f"{name} may run as root"
    if own.get("runAsUser", pod.get("runAsUser")) == 0:
        yield f"{name} runs as user 0"
    if own.get("seccompProfile", pod.get("seccompProfile", {})).get("type") not in SECCOMP:
        yield f"{name} has no seccomp profile"
    if own.get("procMount", "Default") != "Default":
        yield f"{name} sees all of /proc"
    if any("hostPort" in port for port in container.get("ports", [])):
        yield f"{name} takes a port of its host"
