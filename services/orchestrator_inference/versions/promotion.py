from orchestrator_inference.errors import NotThePromotedVersion
from podium_kit.policy_versions import Alias, Aliases, NotReady, VersionStore
from podium_kit.policy_versions.decisions import Decided, Verdict, read_decided
from podium_kit.policy_versions.reports import read_report


def promote(store: VersionStore, name: str) -> str:
    """Points `promoted` at a version; the one it meant before, "" for none.

    Raises NotReady, ArtifactRejected, InvalidVersionName.
    """
    current = Aliases(store.root).current(Alias.PROMOTED)
    if name != current:
        store.verified(name)
        _require_served(store, name)
        _require_let_through(read_decided(store.root, name), name, current)
        Aliases(store.root).move(Alias.PROMOTED, name)
    return current


def roll_back(store: VersionStore, name: str) -> str:
    """Points `promoted` from this version at the one before; that one.

    Its weights are not read: that may take minutes, and the serving side has read them when
    it admitted the version. Raises NotThePromotedVersion, NoEarlierVersion, ArtifactRejected.
    """
    aliases = Aliases(store.root)
    history = aliases.history(Alias.PROMOTED)
    if history[-1:] != [name]:
        raise NotThePromotedVersion(name, history[-1] if history else "")
    if len(history) > 1:
        store.manifest(history[-2])
    return aliases.back(Alias.PROMOTED, name)


def _require_served(store: VersionStore, name: str) -> None:
    report = read_report(store.root, name)
    if report is None or not report.ready:
        faults = "; ".join(report.faults) if report else "no engine has reported it"
        raise NotReady(name, f"it is not served: {faults}")


def _require_let_through(decision: Decided | None, name: str, current: str) -> None:
    if decision is None:
        raise NotReady(name, "no gate has decided about it; run `podium train gate`")
    if decision.verdict is not Verdict.PROMOTE:
        raise NotReady(name, f"the gate says {decision.verdict}: {'; '.join(decision.reasons)}")
    if decision.promoted != current:
        compared, now = decision.promoted or "the base", current or "the base"
        raise NotReady(name, f"it was compared with {compared}, but {now} is promoted now")
