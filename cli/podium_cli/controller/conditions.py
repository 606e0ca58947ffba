"""The status of an object, as kubectl, Argo CD and Flux read it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

READY = "Ready"


def status_of(
    generation: int,
    before: Sequence[Mapping[str, Any]],
    found: Mapping[str, Any],
    *,
    reason: str,
    message: str,
) -> dict[str, Any]:
    """Ready when `found` says what holds; the time is that of the last change of Ready."""
    well = "True" if found else "False"
    last = next((each for each in before if each["type"] == READY), None)
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    condition = {
        "type": READY,
        "status": well,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": last["lastTransitionTime"]
        if last and last["status"] == well
        else now,
    }
    return {**found, "observedGeneration": generation, "conditions": [condition]}
