from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chart.rendering import Json, label, of_kind, parsed


@dataclass(frozen=True)
class PodTemplate:
    owner: str
    labels: dict[str, str]
    spec: Json


def pod_templates(objects: list[Json]) -> Iterator[PodTemplate]:
    for obj in objects:
        spec = obj.get("spec", {})
        match obj["kind"]:
            case "Pod":
                yield PodTemplate(label(obj), obj["metadata"]["labels"], spec)
            case "Deployment" | "WorkerDeployment" | "Job":
                yield _from_template(obj, spec["template"])
            case "StatefulSet":
                yield _from_template(obj, _with_claims(spec))
            case "CronJob":
                yield _from_template(obj, spec["jobTemplate"]["spec"]["template"])
            case "TrainingRuntime":
                for job in spec["template"]["spec"]["replicatedJobs"]:
                    yield _from_template(obj, job["template"]["spec"]["template"])
            case "LLMInferenceService":
                yield PodTemplate(label(obj), spec["labels"], spec["template"])
            case "InferenceService":
                yield _predictor(obj, objects)
            case "ConfigMap" if "run.yaml" in obj["data"]:
                yield from pod_templates(list(parsed(obj["data"]["run.yaml"])))


def containers(spec: Json) -> list[Json]:
    """All containers of a pod, those that run before the others included."""
    found: list[Json] = [*spec.get("initContainers", []), *spec.get("containers", [])]
    return found


def _from_template(obj: Json, template: Json) -> PodTemplate:
    return PodTemplate(label(obj), template["metadata"]["labels"], template["spec"])


def _with_claims(spec: Json) -> Json:
    """A StatefulSet's template with the volumes that Kubernetes adds, one for each claim."""
    template: Json = spec["template"]
    claims = [
        {"name": claim["metadata"]["name"], "persistentVolumeClaim": {}}
        for claim in spec.get("volumeClaimTemplates", [])
    ]
    volumes = [*template["spec"].get("volumes", []), *claims]
    return template | {"spec": template["spec"] | {"volumes": volumes}}


# What a model of KServe says of its container in place of the runtime.
CONTAINER = ("image", "livenessProbe", "resources", "securityContext", "startupProbe")


def _predictor(obj: Json, objects: list[Json]) -> PodTemplate:
    """KServe merges the runtime's containers and volumes into the predictor's pod."""
    predictor: dict[str, Any] = obj["spec"]["predictor"]
    named = predictor["model"]["runtime"]
    runtimes = of_kind(objects, "ServingRuntime")
    runtime = next(found for found in runtimes if found["metadata"]["name"] == named)["spec"]
    own = {key: predictor["model"][key] for key in CONTAINER if key in predictor["model"]}
    container = runtime["containers"][0] | own
    return PodTemplate(
        label(obj), predictor["labels"], {**runtime, **predictor, "containers": [container]}
    )


# Kubernetes' Pod Security Standard "restricted". Source:
# kubernetes.io/docs/concepts/security/pod-security-standards, version 1.37. Own code because no
# checker on PyPI looks into the pods of custom resources.
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
