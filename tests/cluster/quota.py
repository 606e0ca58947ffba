import json
import time

from cluster.finding import NotSo, require
from cluster.release import Json, Release, run, served

NODES, ACCELERATORS = 2, 8
QUEUE = "podium-cluster-test"
WAIT_S = 60.0
VALUES = {
    "training.enabled": "true",
    "training.nodes": str(NODES),
    "training.acceleratorsPerNode": str(ACCELERATORS),
    "training.model": "image:///models/none",
    "training.queue.clusterQueue": QUEUE,
    "accelerator.profile": "nvidia",
    "integrations.kueue.enabled": "true",
}
FILES = ("configmap", "queue", "claim")
RUN = "jsonpath={.data.run\\.yaml}"


def counted(release: Release) -> str:
    """A quota of one node holds the run back, one of both nodes lets it go."""
    if not served("clusterqueues.kueue.x-k8s.io"):
        return "not tried: Kueue is not served"
    beside = release.beside("quota")
    beside.make_namespace()
    try:
        kinds = [False, True] if served("trainingruntimes.trainer.kubeflow.org") else [False]
        found = [_counted(beside, trainer=trainer) for trainer in kinds]
    finally:
        run("kubectl", "delete", f"clusterqueue/{QUEUE}", f"resourceflavor/{QUEUE}")
        beside.remove()
    return "; ".join(found)


def _counted(beside: Release, *, trainer: bool) -> str:
    run("kubectl", "apply", "-f", "-", stdin=json.dumps(queue(ACCELERATORS)))
    values = VALUES | {"integrations.trainer.enabled": str(trainer).lower()}
    files = [*FILES, *(["runtime"] if trainer else [])]
    shown = [word for file in files for word in ("-s", f"templates/training/{file}.yaml")]
    beside.kubectl("apply", "-f", "-", stdin=beside.template(values, *shown))
    made = beside.kubectl("get", "configmap", "podium-training", "-o", RUN)
    name = beside.kubectl("create", "-f", "-", "-o", "name", stdin=made).strip()
    try:
        (pods,) = workload(beside, "Pending")["spec"]["podSets"]
        requests = pods["template"]["spec"]["containers"][0]["resources"]["requests"]
        gpus = int(pods["count"]) * int(requests["nvidia.com/gpu"])
        require(gpus == NODES * ACCELERATORS, f"Kueue counts {gpus} accelerators")
        run("kubectl", "apply", "-f", "-", stdin=json.dumps(queue(gpus)))
        workload(beside, "QuotaReserved")
    finally:
        beside.kubectl("delete", name, "--wait=true")
    return f"{name.partition('.')[0]}: {pods['count']} pods, {gpus} accelerators"


def workload(release: Release, expected: str) -> Json:
    until = time.monotonic() + WAIT_S
    found: list[Json] = []
    while time.monotonic() < until:
        for one in (found := release.items("workloads.kueue.x-k8s.io")):
            for condition in one.get("status", {}).get("conditions", []):
                if condition["type"] == "QuotaReserved" and condition["reason"] == expected:
                    return one
        time.sleep(1)
    raise NotSo(f"no Workload is {expected}: {[one.get('status') for one in found]}")


def queue(gpus: int) -> Json:
    limits = {"cpu": "100", "memory": "1000Gi", "nvidia.com/gpu": str(gpus)}
    resources = [{"name": name, "nominalQuota": limit} for name, limit in limits.items()]
    group = {"coveredResources": list(limits), "flavors": [{"name": QUEUE, "resources": resources}]}
    version, metadata = "kueue.x-k8s.io/v1beta2", {"name": QUEUE}
    flavor = {"apiVersion": version, "kind": "ResourceFlavor", "metadata": metadata}
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    queue = {"apiVersion": version, "kind": "ClusterQueue", "metadata": metadata, "spec": spec}
    return {"apiVersion": "v1", "kind": "List", "items": [flavor, queue]}
