import asyncio
from dataclasses import dataclass
from pathlib import Path

from orchestrator_inference.errors import NoPolicyStore, VersionNotFound
from orchestrator_inference.versions.promotion import promote, roll_back
from podium_kit.policy_versions import Alias, Aliases, ArtifactRejected, VersionName, VersionStore
from podium_kit.policy_versions.decisions import Decided, read_decided
from podium_kit.policy_versions.reports import Report, read_report


@dataclass(frozen=True)
class VersionState:
    name: VersionName
    step: int | None
    """None when its manifest cannot be read."""
    aliases: tuple[Alias, ...]
    report: Report | None
    decision: Decided | None
    faults: tuple[str, ...]


class VersionCatalogue:
    """Without a store every method raises NoPolicyStore."""

    def __init__(self, root: Path | None) -> None:
        self._root = root

    async def all(self) -> list[VersionState]:
        store = self._store()
        return await asyncio.to_thread(lambda: [_state(store, name) for name in store.names()])

    async def get(self, name: str) -> VersionState:
        store, parsed = self._store(), VersionName.parse(name)
        if parsed not in store.names():
            raise VersionNotFound(name)
        return await asyncio.to_thread(_state, store, parsed)

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
    step = None
    try:
        step = store.manifest(text).step
    except ArtifactRejected as rejection:
        faults.append(rejection.why)
    return VersionState(
        name=name,
        step=step,
        aliases=tuple(alias for alias in Alias if aliases.current(alias) == text),
        report=report,
        decision=read_decided(store.root, text),
        faults=tuple(dict.fromkeys(faults)),
    )
