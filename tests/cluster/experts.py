"""An expert of the values: a tool that costs what its seconds cost, without a pod while idle."""

import time
from decimal import Decimal

from cluster.engines import MODEL, NEEDED, serve
from cluster.finding import NotSo, require
from cluster.release import Json, Release, served
from cluster.scaling import NEEDED as SCALER
from cluster.tasks import asked

EXPERT, TOOL, PRICE = "ask-expert", "ask_expert", "0.001"
DEPLOYMENT = f"podium-expert-{EXPERT}-predictor"
# The bundled policy asks an expert for what no tool of its own gives.
QUESTION = "Summarize the causes of the First World War."
IDLE_S, DOWN_S = 30, 300
VALUES: Json = {
    "integrations.keda.enabled": True,
    "experts": {
        EXPERT: {
            "model": f"image://models/{MODEL}",
            "description": "A small generalist.",
            "accelerators": 0,
            "scaleToZero": "keda",
            "idleSeconds": IDLE_S,
            "price": {"perSecond": PRICE},
            "extraArgs": ["--max-model-len=4096", "--max-num-seqs=4"],
            "resources": {
                "requests": {"cpu": "100m", "memory": "1Gi"},
                "limits": {"memory": "4Gi"},
            },
        }
    },
}


def expert_answers(release: Release) -> str:
    """The Job registers it with its price; a call finds no pod, waits for one, and is answered."""
    if missing := [each for each in (NEEDED, SCALER) if not served(each)]:
        return f"not tried: {', '.join(missing)} is not served"
    serve(release)
    release.json_values |= VALUES
    release.upgrade_and_wait()
    _until(release, 0, DOWN_S)
    began = time.monotonic()
    events = asked(release, "--tool", TOOL, question=QUESTION)
    took_s = time.monotonic() - began
    calls = [event["tool_returned"] for event in events if "tool_returned" in event]
    require(bool(calls), f"the expert was not asked: {events}")
    for call in calls:
        require("failure" not in call["observation"], f"{call}")
        seconds = {one["dimension"]: one["amount"] for one in call["usage"]["quantities"]}
        cost = Decimal(seconds["USAGE_DIMENSION_SECOND"]) * Decimal(PRICE)
        require(Decimal(call["cost"]["amount"]) == cost > 0, f"{call} instead of {cost}")
    return f"from no pod to {len(calls)} calls answered in {took_s:.0f} s, ${cost} for the last"


def expert_rests(release: Release) -> str:
    """KEDA takes its last pod away; the model server is a Deployment again."""
    if missing := [each for each in (NEEDED, SCALER) if not served(each)]:
        return f"not tried: {', '.join(missing)} is not served"
    require("experts" in release.json_values, "the row that asks the expert comes first")
    down_s = _until(release, 0, DOWN_S)
    for key in ("integrations.kserve.enabled", "inference.mode", *VALUES):
        release.json_values.pop(key)
    release.upgrade_and_wait()
    return f"no pod after {down_s:.0f} s without a call"


def _until(release: Release, replicas: int, within_s: float) -> float:
    began = time.monotonic()
    found = -1
    while time.monotonic() - began < within_s:
        deployments = {one["metadata"]["name"]: one for one in release.items("deployments.apps")}
        if DEPLOYMENT in deployments:
            found = deployments[DEPLOYMENT]["status"].get("replicas", 0)
            if found == replicas:
                return time.monotonic() - began
        time.sleep(2)
    scalers = release.kubectl("describe", SCALER)
    raise NotSo(f"{found} pods of {DEPLOYMENT} instead of {replicas}: {scalers[-1500:]}")
