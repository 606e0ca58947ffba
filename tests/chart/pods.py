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


def _predictor(obj: Json, objects: list[Json]) -> PodTemplate:
    """KServe merges the runtime's containers and volumes into the predictor's pod."""
    predictor: dict[str, Any] = obj["spec"]["predictor"]
    named = predictor["model"]["runtime"]
    runtimes = of_kind(objects, "ServingRuntime")
    runtime = next(found for found in runtimes if found["metadata"]["name"] == named)["spec"]
    container = runtime["containers"][0] | {"resources": predictor["model"]["resources"]}
    return PodTemplate(
        label(obj), predictor["labels"], {**runtime, **predictor, "containers": [container]}
    )
