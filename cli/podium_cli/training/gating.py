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
