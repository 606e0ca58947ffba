"""Engines of merged versions: one for each that is wanted, none for the others.

A new version's engine starts beside those that serve (blue and green). orchestrator-inference finds
its pods, asks them the canary and admits the version; moving an alias is what changes who serves.
The engine before stays for a rollback, and goes once nothing means it for long enough.
"""

import logging
import time
from typing import Protocol

from orchestrator_inference.policy_engines.blueprint import Json
from orchestrator_inference.policy_engines.kserve_api import not_ready
from podium_kit.policy_versions import Alias, Aliases, ArtifactRejected, Format, VersionStore
from podium_kit.rpc.errors import DomainError

log = logging.getLogger(__name__)


class Engines(Protocol):
    async def versions(self) -> dict[str, Json]: ...
    async def bring(self, version: str, found: Json | None) -> None: ...
    async def remove(self, version: str) -> None: ...
    async def changed(self, timeout_s: float) -> None: ...


class EngineKeeper:
    def __init__(
        self, store: VersionStore, engines: Engines, *, newest: int, retire_after_s: float
    ) -> None:
        self._store = store
        self._aliases = Aliases(store.root)
        self._engines = engines
        self._newest = newest
        self._retire_after_s = retire_after_s
        self._unwanted_since: dict[str, float] = {}
        self._said: dict[str, str] = {}

    async def keep(self, check_s: float) -> None:
        """One round, then waits for a change of an engine, `check_s` seconds at most."""
        await self.reconcile()
        await self._engines.changed(check_s)

    async def reconcile(self) -> None:
        """One round. An engine that is rejected, or cannot be deleted, holds up no other."""
        found = await self._engines.versions()
        wanted = self.wanted()
        for version in wanted:
            self._unwanted_since.pop(version, None)
            try:
                await self._engines.bring(version, found.get(version))
            except DomainError as error:
                self._say(version, error.message)
                continue
            if version in found:
                self._say(version, not_ready(found[version]))
        for version in found.keys() - set(wanted):
            await self._retire(version)

    def wanted(self) -> list[str]:
        """Merged versions that an alias means or promoted meant before, and the newest."""
        by_age = sorted(self._store.names(), key=lambda name: self._store.written_ns(str(name)))
        merged = [name for name in map(str, by_age) if self._is_merged(name)]
        meant = {
            *self._aliases.history(Alias.PROMOTED)[-2:],
            self._aliases.current(Alias.CANDIDATE),
        }
        return [name for name in merged if name in meant or name in merged[-self._newest :]]

    def _is_merged(self, name: str) -> bool:
        try:
            return self._store.manifest(name).format is Format.MERGED
        except ArtifactRejected:
            # orchestrator-inference reports it; an engine would not start on it.
            return False

    async def _retire(self, version: str) -> None:
        since = self._unwanted_since.setdefault(version, time.monotonic())
        if time.monotonic() - since < self._retire_after_s:
            return
        try:
            await self._engines.remove(version)
        except DomainError as error:
            log.warning("engine of %s is not wanted, and stays: %s", version, error.message)
            return
        self._unwanted_since.pop(version)

    def _say(self, version: str, why: str) -> None:
        if self._said.get(version) == why:
            return
        self._said[version] = why
        if why:
            log.warning("engine of %s is not ready: %s", version, why)
        else:
            log.info("engine of %s is ready", version)
