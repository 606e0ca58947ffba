"""The gate's decision about a version, recorded in the store."""

from collections.abc import Sequence
from pathlib import Path

from podium_kit.client.errors import UsageError
from podium_kit.policy_versions import Alias, Aliases, VersionName
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

Played = tuple[Sequence[Evaluated], Sequence[Evaluated]]
"""What the version did, and what the promoted policy did, on the same tasks."""


def decided(version: str, store: Path, played: Played, rules: GateRules, look: int = 1) -> Decision:
    """Raises UsageError when the look was taken already, or the evaluations do not match."""
    VersionName.parse(version)
    current = Aliases(store).current(Alias.PROMOTED)
    earlier = read_decision(store, version)
    if earlier is not None and earlier.promoted == current and earlier.look >= look:
        fix = "take the next look with --look, or publish a new version"
        raise UsageError(f"look {earlier.look} at {version} was taken already", fix)
    try:
        decision = decide(version, current, pair(*played), rules, look=look)
    except (InvalidEvaluation, UnplannedLook) as error:
        raise UsageError(str(error)) from error
    write_decision(store, decision)
    return decision
