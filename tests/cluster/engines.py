"""Engines on KServe: the model server, and one of a merged version."""

import json
import time
from pathlib import Path

from cluster.finding import require
from cluster.pods import image_of, program, said
from cluster.release import Json, Release, served
from cluster.tasks import asked, first_task, podium
from cluster.volumes import claims

NEEDED = "inferenceservices.serving.kserve.io"
SERVING: Json = {"integrations.kserve.enabled": True, "inference.mode": "inferenceService"}
MODEL, SERVICE = "smollm2-135m-podium", "podium-orchestrator"
VERSIONS, VERSION = "podium-adapters", "policy-cluster-v1"
OF_VERSIONS: Json = {
    "inference.adapters.enabled": True,
    "inference.adapters.claimName": VERSIONS,
    "components.policy-engines.enabled": True,
}
PUBLISH = (Path(__file__).parent / "programs/publish_merged.py").read_text()
READY_S, SERVED_S = 600, 120


def engine_answers(release: Release) -> str:
    """With vLLM for CPUs and the bundled policy, of 135 million parameters, from `make image`."""
    if not served(NEEDED):
        return "not tried: KServe is not served"
    serve(release)
    wait_until_ready(release, SERVICE)
    answered = first_task(release)
    return f"{SERVICE} is ready (vLLM for CPUs, {MODEL}); {answered}"


def version_answers(release: Release) -> str:
    """policy-engines makes its InferenceService; the episode that names the version runs on it."""
    if not served(NEEDED):
        return "not tried: KServe is not served"
    serve(release)
    before = dict(release.json_values)
    with claims(release, (VERSIONS,), image_of(release, "podium-gateway")):
        try:
            release.json_values |= OF_VERSIONS
            release.upgrade_and_wait()
            _publish(release)
            wait_until_ready(release, VERSION)
            _wait_until_served(release)
            events = asked(release, "--tool", "country_facts", "--model", VERSION)
        finally:
            release.json_values = before
            _remove_engine(release)
            release.upgrade_and_wait()
    models = {
        each["action_decided"]["model_version"] for each in events if "action_decided" in each
    }
    require(models == {VERSION}, f"answered by {models}: {events}")
    return f"the InferenceService {VERSION} is ready and decided {len(events)} events"


def serve(release: Release) -> None:
    """Moves the model server to KServe, unless it is there."""
    if not release.json_values.items() >= SERVING.items():
        release.json_values |= SERVING
        release.upgrade_and_wait()


def wait_until_ready(release: Release, service: str) -> None:
    name = f"inferenceservice/{service}"
    release.kubectl("wait", "--for=create", name, f"--timeout={READY_S}s")
    release.kubectl("wait", "--for=condition=Ready", name, f"--timeout={READY_S}s")


def _remove_engine(release: Release) -> None:
    """It belongs to the model server's, and so it outlives what made it."""
    release.upgrade()
    keeper = ("pod", "-l", "app.kubernetes.io/component=policy-engines")
    release.kubectl("wait", "--for=delete", *keeper, "--timeout=120s")
    release.kubectl("delete", "inferenceservice", VERSION, "--ignore-not-found")


def _wait_until_served(release: Release) -> None:
    """Until orchestrator-inference has found the engine and its canary was right."""
    until = time.monotonic() + SERVED_S
    while True:
        listed = json.loads(podium(release, "platform", "train", "versions", "--json"))
        [found] = [one for one in listed["versions"] if one["name"] == VERSION]
        if found["served"]:
            return
        require(time.monotonic() < until, f"{VERSION} is not served: {found['faults']}")
        time.sleep(2)


def _publish(release: Release) -> None:
    """A version of the bundled policy's weights, with a canary that the model server answered."""
    copy = ["cp", "-r", f"/models/{MODEL}", "/mnt/versions/"]
    mounted = {"/mnt/versions": VERSIONS}
    with program(release, "weights", copy, {}, of=f"{SERVICE}-predictor", claims=mounted):
        said(release, "weights")
    inside = ("exec", "deploy/podium-orchestrator-inference", "--", "python", "-c", PUBLISH)
    release.kubectl(*inside, VERSION, f"/mnt/adapters/{MODEL}", SERVICE)
