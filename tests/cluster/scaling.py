import time

from cluster.finding import NotSo, require
from cluster.load import load
from cluster.release import Release, served

WORKER = "podium-episode-worker"
MOST = 2
VALUES = {
    "integrations.keda.enabled": "true",
    "components.episode-worker.autoscaling.enabled": "true",
    "components.episode-worker.autoscaling.minReplicas": "1",
    "components.episode-worker.autoscaling.maxReplicas": str(MOST),
    "components.episode-worker.autoscaling.openWork": "1",
}
SETTINGS = [f"{key}={value}" for key, value in VALUES.items()]
NEEDED = "scaledobjects.keda.sh"
UP_S, LOAD_S = 180, 100
# Kubernetes waits five minutes before it takes pods away.
DOWN_S = 480


def scaled_up(release: Release) -> str:
    """Scales by direct calls, which are on no queue of Temporal's; all of them are answered."""
    if not served(NEEDED):
        return "not tried: KEDA is not served"
    release.values += SETTINGS
    release.upgrade()
    with load(release, "direct-calls", LOAD_S, 32) as running:
        up_s = _until(release, MOST, UP_S)
        answered = running.ended()
    return f"1 to {MOST} workers in {up_s:.0f} s; {answered}"


def scaled_down(release: Release) -> str:
    if not served(NEEDED):
        return "not tried: KEDA is not served"
    require(set(SETTINGS) <= set(release.values), "the row that starts workers comes first")
    down_s = _until(release, 1, DOWN_S)
    release.values = [value for value in release.values if value not in SETTINGS]
    release.upgrade()
    return f"back to 1 worker, waited for {down_s:.0f} s"


def _until(release: Release, replicas: int, within_s: float) -> float:
    began = time.monotonic()
    ready = 0
    while time.monotonic() - began < within_s:
        [worker] = [
            one for one in release.items("deployments.apps") if one["metadata"]["name"] == WORKER
        ]
        ready = worker["status"].get("readyReplicas", 0)
        if ready == replicas:
            return time.monotonic() - began
        time.sleep(2)
    scalers = release.kubectl("describe", NEEDED)
    require(bool(scalers), "there is no ScaledObject")
    raise NotSo(f"{ready} workers instead of {replicas}: {scalers[-1500:]}")
