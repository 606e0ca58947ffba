import json
import re
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from cluster.finding import NotSo, require
from cluster.load import GATEWAY
from cluster.pods import AUTHORITY, CLIENT, image_of, program, said
from cluster.quota import QUEUE, queue, workload
from cluster.release import CommandFailed, Json, Release, run, served
from cluster.tasks import asked, podium
from cluster.volumes import claims

NODES, PROCESSES, STEPS = 2, 2, 3
# One for each step, and some for those whose episodes cannot be compared.
GROUPS, SIZE = STEPS + 2, 3
MODELS, ADAPTERS, CHECKPOINTS = "podium-models", "podium-adapters", "podium-checkpoints"
MODEL = "smollm2-135m-podium"
LEARNS = "cluster-learns"
VERSION = f"policy-cluster-v{STEPS}"
# On two cores a start takes a minute, and there are two of them.
TRAINED_S, PLAYED_S = 1200.0, 900
NEEDED = ("trainjobs.trainer.kubeflow.org", "clusterqueues.kueue.x-k8s.io")
VALUES: Json = {
    "inference.adapters.enabled": True,
    "inference.adapters.claimName": ADAPTERS,
    "integrations.kueue.enabled": True,
    "integrations.trainer.enabled": True,
    "training.enabled": True,
    "training.nodes": NODES,
    "training.processesPerNode": PROCESSES,
    "training.model": f"pvc://{MODELS}/{MODEL}",
    "training.checkpointsClaim": CHECKPOINTS,
    "training.queue.clusterQueue": QUEUE,
    "training.resources.requests": {"cpu": "200m", "memory": "1Gi"},
    "training.resources.limits": {"memory": "6Gi"},
    "training.config": {
        "output": "/checkpoints/cluster",
        "steps": STEPS,
        "checkpoint_every": 1,
        "threads": 1,
        "precision": "float32",
        # Groups whose members are rewarded alike count, too: what is learnt is not the question.
        "groups": {"advantage": "group_mean", "std_floor": 0},
        "step": {"groups": 1, "loss": "dapo", "learning_rate": 1e-4},
        "lora": {"rank": 8, "alpha": 16},
        "publish": {"run": "cluster", "every": STEPS},
    },
    "bootstrap.policies": [
        {"name": LEARNS, "preset": "balanced", "unknown_price": "admit", "training_consent": True}
    ],
}
JOBSET, INDEX = "jobset.sigs.k8s.io/jobset-name", "batch.kubernetes.io/job-completion-index"
T = TypeVar("T")
STEP = re.compile(rf"step (\d+) of {STEPS}")


def trained(release: Release) -> str:
    """From episodes of this platform, under the Trainer and Kueue; the gateway answers with it."""
    missing = [each for each in NEEDED if not served(each)]
    if missing:
        return f"not tried: {', '.join(missing)} is not served"
    before = dict(release.json_values)
    with claims(release, (MODELS, ADAPTERS, CHECKPOINTS), image_of(release, "podium-gateway")):
        try:
            run("kubectl", "apply", "-f", "-", stdin=json.dumps(queue(1)))
            _copy_model(release)
            release.json_values |= VALUES
            release.upgrade_and_wait()
            played = _play(release)
            found = _run(release)
            _served(release)
        finally:
            release.json_values = before
            release.upgrade_and_wait()
            run("kubectl", "delete", f"clusterqueue/{QUEUE}", f"resourceflavor/{QUEUE}")
    return f"{played}; {found}; {VERSION} answered"


def _copy_model(release: Release) -> None:
    copy = ["cp", "-r", f"/models/{MODEL}", "/mnt/models/"]
    with program(
        release, "model", copy, {}, of="podium-model-server", claims={"/mnt/models": MODELS}
    ):
        said(release, "model")


def _play(release: Release) -> str:
    environment = {
        "PODIUM_URL": GATEWAY,
        "PODIUM_API_KEY": release.key("tenant"),
        "SSL_CERT_FILE": f"{AUTHORITY}/ca.crt",
    }
    options = {
        "policy": LEARNS,
        "family": "facts",
        "count": str(GROUPS),
        "size": str(SIZE),
        "at-once": str(SIZE),
        "tools": "1",
        "turn-limit": "3",
        "time-limit": "300s",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    command = ["podium", "train", "rollout", *words]
    with program(release, "player", command, CLIENT, environment):
        said(release, "player", PLAYED_S)
    return f"{GROUPS * SIZE} episodes played"


def _run(release: Release) -> str:
    """Its second pod is killed after a step; all continue from there."""
    submit = ("-m", "podium_cli", "train", "submit", "--cluster")
    begun = run(sys.executable, *submit, "--namespace", release.namespace)
    name = begun.split()[-1]
    try:
        counted = workload(release, "QuotaReserved")["spec"]["podSets"]
        pods = sum(int(each["count"]) for each in counted)
        require(pods == NODES, f"Kueue counts {pods} pods")
        # The second step is taken when the first one's checkpoint is whole.
        before = _until(release, name, lambda: _steps(release, name)[1:])
        release.kubectl("delete", "pod", _pods(release, name)[1], "--force", "--grace-period=0")
        _until(release, name, lambda: _has_ended(release, name))
        after = _steps(release, name)
        require(1 < after[0] <= after[-1] == STEPS, f"steps {before}, then {after}")
    finally:
        release.kubectl("delete", "trainjob", name, "--wait=true")
    return (
        f"Kueue's Workload counts {pods} pods, of {PROCESSES} processes each; one was killed after"
        f" step {before[-1]}, resumed at step {after[0]} of {STEPS}"
    )


def _until(release: Release, name: str, found: Callable[[], T]) -> T:
    until = time.monotonic() + TRAINED_S
    while not (value := found()):
        if time.monotonic() > until:
            pods = release.kubectl("get", "pods", "-l", f"{JOBSET}={name}", "-o", "wide")
            raise NotSo(f"{name} comes to no end: {pods}; {_said(release, name)[-1500:]}")
        time.sleep(1)
    return value


def _has_ended(release: Release, name: str) -> bool:
    found: Json = json.loads(release.kubectl("get", "trainjob", name, "-o", "json"))
    kinds = {
        one["type"]: one.get("message", "")
        for one in found.get("status", {}).get("conditions", [])
        if one["status"] == "True"
    }
    require("Failed" not in kinds, f"{kinds.get('Failed')}: {_said(release, name)[-1500:]}")
    return "Complete" in kinds


def _pods(release: Release, name: str) -> list[str]:
    """Names of the newest of each index."""
    selected = ("pods", "-l", f"{JOBSET}={name}", "-o", "json")
    pods: list[Json] = json.loads(release.kubectl("get", *selected))["items"]
    pods.sort(key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    newest = {pod["metadata"]["labels"][INDEX]: pod["metadata"]["name"] for pod in pods}
    return [newest[each] for each in sorted(newest)]


def _said(release: Release, name: str) -> str:
    try:
        return release.kubectl("logs", _pods(release, name)[0])
    except (CommandFailed, IndexError):
        return ""


def _steps(release: Release, name: str) -> list[int]:
    return [int(each) for each in STEP.findall(_said(release, name))]


def _served(release: Release) -> None:
    """The engine took the version, and it decides in an episode that names it."""
    listed = podium(release, "platform", "train", "versions", "--wait")
    require(VERSION in listed, f"{VERSION} is not served: {listed}")
    events = asked(release, "--tool", "country_facts", "--model", VERSION)
    models = {
        each["action_decided"]["model_version"] for each in events if "action_decided" in each
    }
    require(models == {VERSION}, f"answered by {models}: {events}")
