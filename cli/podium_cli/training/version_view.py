"""Versions and decisions as tables, and the same for a machine."""

from typing import Any

from rich.table import Table

from gate import Decision, read_decision
from podium_cli.listing import listing
from policy_versions import Alias, Aliases, ArtifactRefused, VersionStore
from policy_versions.reports import read_report


def version_values(store: VersionStore) -> dict[str, Any]:
    """Every version of a store, by run and number."""
    return {"versions": [_values(store, str(name)) for name in store.names()]}


def version_rows(store: VersionStore) -> list[tuple[str, ...]]:
    """A row per version."""
    return [
        (
            each["version"],
            "" if each["step"] is None else str(each["step"]),
            ", ".join(each["aliases"]),
            each["served"],
            each["gate"] or "-",
            "; ".join(each["faults"]),
        )
        for each in version_values(store)["versions"]
    ]


def decision_table(decision: Decision) -> Table:
    """The verdict with every number it stands on."""
    rows = [("verdict", decision.verdict.value), ("pairs", str(decision.pairs))]
    rows += [("why", reason) for reason in decision.reasons]
    for name, bound in decision.bounds.items():
        words = f"{bound['mean']:+.4g} ({bound['lower']:+.4g} to {bound['upper']:+.4g})"
        rows.append((f"gain in {name}", words))
    ours, theirs = decision.figures["candidate"], decision.figures["promoted"]
    rows += [(name, f"{ours[name]} (promoted {theirs[name]})") for name in ours]
    return listing(("", ""), rows)


def _values(store: VersionStore, name: str) -> dict[str, Any]:
    aliases, report = Aliases(store.root), read_report(store.root, name)
    decision = read_decision(store.root, name)
    faults = list(report.faults) if report else []
    step = None
    try:
        step = store.manifest(name).step
    except ArtifactRefused as refusal:
        faults.append(refusal.why)
    return {
        "version": name,
        "step": step,
        "aliases": [alias.value for alias in Alias if aliases.current(alias) == name],
        "served": _served(report.replicas_ready, report.replicas) if report else "not seen yet",
        "gate": decision.verdict.value if decision else None,
        "faults": list(dict.fromkeys(faults)),
    }


def _served(ready: int, replicas: int) -> str:
    return f"{ready} of {replicas}"
