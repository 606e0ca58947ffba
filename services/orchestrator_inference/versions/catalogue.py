import asyncio
from dataclasses import dataclass
from pathlib import Path

from orchestrator_inference.errors import NoPolicyStore, NotThePromotedVersion, VersionNotFound
from podium_kit.policy_versions import (
    Alias,
    Aliases,
    ArtifactRejected,
    NotReady,
    VersionName,
    VersionStore,
)
from podium_kit.policy_versions.decisions import (
    Decided,
    RecordedDecision,
    Verdict,
    read_decided,
)
from podium_kit.policy_versions.metrics import Metrics, stored_metrics
from podium_kit.policy_versions.reports import Report, read_report
from podium_kit.rpc.identity import Scope, current_identity


def promote(store: VersionStore, name: str) -> str:
    """Points `promoted` at a version; the one it meant before, "" for none.

    Raises NotReady, ArtifactRejected, InvalidVersionName.
    """
    current = Aliases(store.root).current(Alias.PROMOTED)
    if name != current:
        if tenant := store.verified(name).tenant:
            why = f"it was learnt from the episodes of tenant {tenant}, which alone may use it"
            raise NotReady(name, why)
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


@dataclass(frozen=True)
class VersionState:
    name: VersionName
    step: int | None
    """None when its manifest cannot be read."""
    aliases: tuple[Alias, ...]
    report: Report | None
    decision: RecordedDecision | None
    faults: tuple[str, ...]
    tenant: str | None
    """Manifest.tenant; None when the manifest cannot be read."""

    @property
    def is_visible(self) -> bool:
        """Callers see what their tenant may use; administrators of the platform see all."""
        caller = current_identity()
        return self.tenant in ("", caller.tenant) or Scope.PLATFORM_ADMIN in caller.scopes


class VersionCatalogue:
    """The versions that the caller may see. Without a store every method raises NoPolicyStore."""

    def __init__(self, root: Path | None) -> None:
        self._root = root

    async def all(self) -> list[VersionState]:
        store = self._store()
        found = await asyncio.to_thread(lambda: [_state(store, name) for name in store.names()])
        return [state for state in found if state.is_visible]

    async def get(self, name: str) -> VersionState:
        store, parsed = self._store(), VersionName.parse(name)
        if parsed not in store.names():
            raise VersionNotFound(name)
        state = await asyncio.to_thread(_state, store, parsed)
        if not state.is_visible:
            raise VersionNotFound(name)
        return state

    async def training_steps(self, name: str) -> list[Metrics]:
        await self.get(name)
        return await asyncio.to_thread(stored_metrics, self._store().root, name)

    async def promote(self, name: str) -> tuple[VersionState, str]:
        """Gives a version to users; it, and the one before. Raises what `promote` raises."""
        await self.get(name)
        # Digests of whole weights: seconds, in which calls must continue.
        previous = await asyncio.to_thread(promote, self._store(), name)
        return await self.get(name), previous

    async def roll_back(self, name: str) -> VersionState:
        return await self.get(await asyncio.to_thread(roll_back, self._store(), name))

    def _store(self) -> VersionStore:
        if self._root is None:
            raise NoPolicyStore
        return VersionStore(self._root)


def _state(store: VersionStore, name: VersionName) -> VersionState:
    text, aliases = str(name), Aliases(store.root)
    report = read_report(store.root, text)
    faults = list(report.faults) if report else []
    step = tenant = None
    try:
        manifest = store.manifest(text)
        step, tenant = manifest.step, manifest.tenant
    except ArtifactRejected as rejection:
        faults.append(rejection.why)
    return VersionState(
        name=name,
        step=step,
        aliases=tuple(alias for alias in Alias if aliases.current(alias) == text),
        report=report,
        decision=read_decided(store.root, text),
        faults=tuple(dict.fromkeys(faults)),
        tenant=tenant,
    )
