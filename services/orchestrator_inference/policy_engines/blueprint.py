"""The engine of a policy version, made from the base model's service.

The chart writes the base model's service: image, accelerators, placement, security. An engine is
that, with other weights, another name and labels that keep it out of the base model's Service.
Green is blue but for the weights; what the chart changes reaches every engine.
"""

import copy
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

VERSION = "podium.dev/policy-version"
BLUEPRINT = "podium.dev/blueprint"
# Tells the engines of one release from those of another in its namespace.
ENGINE_OF = "podium.dev/engine-of"
COMPONENT = "app.kubernetes.io/component"
MANAGER = "app.kubernetes.io/managed-by"
MANAGED_BY = "policy-engines"
# KServe adds "-predictor" and makes a Service of it, whose name is a label of DNS.
NAME_CHARS_MAX = 63 - len("-predictor")
DIGEST_CHARS = 16
MODEL_VARIABLE = "PODIUM_MODEL"


@dataclass(frozen=True)
class EngineRules:
    kind: str
    """InferenceService or LLMInferenceService."""
    claim: str
    folder: Path
    """Where every engine and the keeper itself mount the claim."""
    component: str


def engine_name(version: str) -> str:
    """The version's name, or a digest where that is too long."""
    if len(version) <= NAME_CHARS_MAX:
        return version
    return f"policy-{hashlib.sha256(version.encode()).hexdigest()[:DIGEST_CHARS]}"


def engine_of(version: str, blueprint: Json, rules: EngineRules) -> Json:
    """The whole object of a version's engine, as plain JSON.

    Its annotation `podium.dev/blueprint` is the digest of all the rest: another digest means that
    the engine is to be patched.
    """
    build = _inference_service if rules.kind == "InferenceService" else _llm_inference_service
    spec = build(version, copy.deepcopy(blueprint["spec"]), rules)
    labels = _labels(blueprint["metadata"].get("labels", {}), rules)
    labels[ENGINE_OF] = blueprint["metadata"]["name"]
    annotations = _kserves_own(blueprint["metadata"].get("annotations", {})) | {VERSION: version}
    content = json.dumps([spec, labels, annotations], sort_keys=True)
    annotations[BLUEPRINT] = hashlib.sha256(content.encode()).hexdigest()
    metadata = {
        "name": engine_name(version),
        "labels": labels,
        "annotations": annotations,
        # `helm uninstall` deletes the blueprint, and Kubernetes with it the engines.
        "ownerReferences": [_reference(blueprint)],
    }
    return {
        "apiVersion": blueprint["apiVersion"],
        "kind": blueprint["kind"],
        "metadata": metadata,
        "spec": spec,
    }


def merge_patch(found: Json, wanted: Json) -> Json:
    """The patch from one object to the other (RFC 7386); a removed key is null."""
    patch: Json = dict.fromkeys(found.keys() - wanted.keys())
    for key, value in wanted.items():
        old = found.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := merge_patch(old, value):
                patch[key] = inner
        elif key not in found or old != value:
            patch[key] = value
    return patch


def _inference_service(version: str, spec: Json, rules: EngineRules) -> Json:
    predictor = spec["predictor"]
    predictor["labels"] = _labels(predictor.get("labels", {}), rules)
    # The metric that scales the base model counts its requests alone.
    predictor.pop("autoScaling", None)
    predictor["maxReplicas"] = predictor["minReplicas"]
    model = predictor["model"]
    # The runtime mounts the versions, and the chart's command reads which one it serves.
    model.pop("storageUri", None)
    env = [each for each in model.get("env", []) if each["name"] != MODEL_VARIABLE]
    model["env"] = [*env, {"name": MODEL_VARIABLE, "value": f"{rules.folder}/{version}"}]
    # The runtime names the model after the object; the last argument holds.
    model["args"] = [*model.get("args", []), f"--served-model-name={version}"]
    return dict(spec)


def _llm_inference_service(version: str, spec: Json, rules: EngineRules) -> Json:
    spec["labels"] = _labels(spec.get("labels", {}), rules)
    spec["model"] |= {"uri": f"pvc://{rules.claim}/{version}", "name": version}
    # Its replicas are asked one by one, so nothing routes to them.
    spec.pop("router", None)
    scaling = spec.pop("scaling", None)
    if scaling is not None:
        spec["replicas"] = scaling.get("minReplicas", 1)
    return spec


def _labels(labels: Json, rules: EngineRules) -> Json:
    return labels | {COMPONENT: rules.component, MANAGER: MANAGED_BY}


def _kserves_own(annotations: Json) -> Json:
    """KServe's; Helm's would make the engine part of the release. Nothing scales an engine."""
    found = {key: value for key, value in annotations.items() if "serving.kserve.io/" in key}
    if "serving.kserve.io/autoscalerClass" in found:
        found["serving.kserve.io/autoscalerClass"] = "none"
    return found


def _reference(blueprint: Json) -> Json:
    metadata = blueprint["metadata"]
    return {
        "apiVersion": blueprint["apiVersion"],
        "kind": blueprint["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
