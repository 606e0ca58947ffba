"""Versions and decisions as tables."""

from collections.abc import Sequence

from podium.orchestrator.v1 import model_version_service_pb2 as pb
from podium_cli.listing import Listing, listing
from podium_kit.wire import enum_word
from podium_training.gate import Decision

COLUMNS = ("version", "step#", "aliases", "served", "gate", "why not…")


def version_table(versions: Sequence[pb.ModelVersion]) -> Listing:
    """A row per version."""
    return listing(COLUMNS, [_row(version) for version in versions])


def decision_table(decision: Decision) -> Listing:
    """The verdict with every number it is based on."""
    rows = [("verdict", decision.verdict.value), ("pairs", str(decision.pairs))]
    rows += [("why", reason) for reason in decision.reasons]
    for name, bound in decision.bounds.items():
        words = f"{bound['mean']:+.4g} ({bound['lower']:+.4g} to {bound['upper']:+.4g})"
        rows.append((f"gain in {name}", words))
    ours, theirs = decision.figures["candidate"], decision.figures["promoted"]
    rows += [(name, f"{ours[name]} (promoted {theirs[name]})") for name in ours]
    return listing(("", ""), rows)


def is_tried(version: pb.ModelVersion) -> bool:
    """Whether an engine serves it, or somebody has found out why none does."""
    return bool(version.replica_count or version.faults)


def _row(version: pb.ModelVersion) -> tuple[str, ...]:
    verdict = enum_word(pb.GateVerdict.Name(version.gate_verdict), "GATE_VERDICT_")
    return (
        version.name,
        str(version.step) if version.HasField("step") else "",
        ", ".join(version.aliases),
        _served(version),
        verdict if version.gate_verdict else "-",
        "; ".join([*version.faults, *version.gate_reasons]),
    )


def _served(version: pb.ModelVersion) -> str:
    if not is_tried(version):
        return "not seen yet"
    return f"{version.replica_ready_count} of {version.replica_count}"
