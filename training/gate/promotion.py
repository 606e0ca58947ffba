"""Moving what users get: only to what the engines serve and the gate let through."""

from gate.decision import Verdict, read_decision
from policy_versions import Alias, Aliases, NotReady, VersionStore
from policy_versions.reports import read_report


def promote(store: VersionStore, name: str) -> None:
    """Points `promoted` at a version. Raises NotReady, ArtifactRefused."""
    store.verified(name)
    report = read_report(store.root, name)
    if report is None or not report.ready:
        faults = "; ".join(report.faults) if report else "no engine has reported it"
        raise NotReady(name, f"it is not served: {faults}")
    decision = read_decision(store.root, name)
    if decision is None:
        raise NotReady(name, "no gate has decided about it; run `podium train gate`")
    if decision.verdict is not Verdict.PROMOTE:
        raise NotReady(name, f"the gate says {decision.verdict}: {'; '.join(decision.reasons)}")
    current = Aliases(store.root).current(Alias.PROMOTED)
    if decision.promoted != current:
        compared = decision.promoted or "the base"
        raise NotReady(name, f"it was compared with {compared}, but {current} is promoted now")
    Aliases(store.root).move(Alias.PROMOTED, name)


def roll_back(store: VersionStore) -> str:
    """Points `promoted` at the version before; that version.

    Its weights are not read: that may take minutes, and the serving side has read them when
    it admitted the version. Raises NoEarlierVersion, ArtifactRefused.
    """
    aliases = Aliases(store.root)
    history = aliases.history(Alias.PROMOTED)
    if len(history) > 1:
        store.manifest(history[-2])
    return aliases.back(Alias.PROMOTED)
