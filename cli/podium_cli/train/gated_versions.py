import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import tenacity

from podium.orchestrator.v1 import model_version_service_pb2 as pb
from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.gateway import Gateway
from podium_kit.policy_versions import Alias, Aliases, VersionName
from podium_kit.policy_versions.reports import Report, read_report
from podium_training.gate import (
    Decision,
    Evaluated,
    GateRules,
    InvalidEvaluation,
    UnplannedLook,
    decide,
    pair,
    read_decision,
    write_decision,
)

WAIT_S, POLL_S = 120.0, 0.5

Played = tuple[Sequence[Evaluated], Sequence[Evaluated]]
"""Evaluations of the version and of the promoted policy on the same tasks."""


def latest_decision(version: str, store: Path) -> Decision | None:
    """The latest about a version against the one that is promoted now."""
    found = read_decision(store, version)
    current = Aliases(store).current(Alias.PROMOTED)
    return found if found is not None and found.promoted == current else None


def decided(version: str, store: Path, played: Played, rules: GateRules, look: int = 1) -> Decision:
    """Raises UsageError when the look was taken already, or under other rules than the one
    before, or the evaluations do not match.
    """
    VersionName.parse(version)
    earlier = latest_decision(version, store)
    if earlier is not None and earlier.look >= look:
        fix = "take the next look with --look, or publish a new version"
        raise UsageError(f"look {earlier.look} at {version} was taken already", fix)
    if earlier is not None and earlier.rules != rules:
        # Rules that follow what was seen no longer bound how often a decision errs.
        raise UsageError(
            f"look {earlier.look} at {version} was taken under other rules",
            f"give the options of that look, --looks {earlier.rules.looks} among them, or publish"
            " a new version",
        )
    current = Aliases(store).current(Alias.PROMOTED)
    try:
        decision = decide(version, current, pair(*played), rules, look=look)
    except (InvalidEvaluation, UnplannedLook) as error:
        raise UsageError(str(error)) from error
    write_decision(store, decision)
    return decision


async def list_versions(gateway: Gateway) -> pb.ListModelVersionsResponse:
    return await gateway.all("/v1/model-versions", pb.ListModelVersionsResponse)


async def tried_report(store: Path, version: str) -> Report:
    """Returns the serving side's report on a version, once it has tried it. Raises UserError."""
    deadline = time.monotonic() + WAIT_S
    while (found := read_report(store, version)) is None or not (found.replicas or found.faults):
        if time.monotonic() > deadline:
            cause = f"after {WAIT_S:.0f} s no engine has tried {version}"
            fix = f"the platform and its engines must see {store}: see `podium status`"
            raise UserError(cause, fix)
        await asyncio.sleep(POLL_S)
    return found


async def tried_versions(gateway: Gateway) -> pb.ListModelVersionsResponse:
    """All of them, once no version is left that no engine has tried. Raises UserError."""
    again = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_result(lambda found: not _all_tried(found)),
        wait=tenacity.wait_fixed(1),
        stop=tenacity.stop_after_delay(WAIT_S),
    )
    try:
        return await again(list_versions, gateway)
    except tenacity.RetryError as error:
        cause = f"after {WAIT_S:.0f} s there is none, or one that no engine has tried"
        raise UserError(cause, "see `podium train versions` and `podium status`") from error


def _all_tried(found: pb.ListModelVersionsResponse) -> bool:
    return bool(found.versions) and all(map(is_tried, found.versions))


def is_tried(version: pb.ModelVersion) -> bool:
    """Returns whether an engine serves it, or someone has found out why none does."""
    return bool(version.replica_count or version.faults)
