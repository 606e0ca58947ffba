"""Fields that the API server lets no upgrade change, of every object of a release.

`python -m chart.immutable` (with tests/ on the path) writes the file of the chart's version into
tests/chart/releases; the release notes of a version are the only place to do that from.
"""

import json
from pathlib import Path
from typing import Any

import yaml

from chart.rendering import CHARTS, Json, rendered

RELEASES = Path(__file__).parent / "releases"
CASES = ("defaults", "minimal-cpu", "dev", "production", "multi-tenant")


def immutable_fields(case: str) -> Json:
    return {
        f"{obj['kind']}/{obj['metadata']['name']}": found
        for obj in rendered(case)
        if (found := _of(obj))
    }


def _of(obj: Json) -> Any:
    spec = obj.get("spec", {})
    match obj["kind"]:
        case "Deployment":
            return {"selector": spec["selector"]}
        case "Service":
            return {"clusterIP": spec.get("clusterIP", ""), "selector": spec["selector"]}
        case "KafkaTopic":
            return {"topicName": spec["topicName"], "partitions": spec["partitions"]}
        case "LocalQueue":
            return {"clusterQueue": spec["clusterQueue"]}
        case "InferenceService" | "LLMInferenceService" | "WorkerDeployment" | "Connection":
            return {"name": obj["metadata"]["name"]}
        case "RoleBinding":
            return {"roleRef": obj["roleRef"]}
    return None


def main() -> None:
    version = yaml.safe_load((CHARTS / "podium/Chart.yaml").read_text())["version"]
    fields = {case: immutable_fields(case) for case in CASES}
    RELEASES.mkdir(exist_ok=True)
    (RELEASES / f"{version}.json").write_text(json.dumps(fields, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
