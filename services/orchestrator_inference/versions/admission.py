"""Brings the engines to what the store holds, again and again, and says what may be served.

A version is admitted when a quorum of replicas has loaded its verified files under its own
name and each has answered the canary as the trainer computed it. Nothing here waits for
a client: publishing writes a folder, and a restarted engine is loaded again.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator_inference.engine.replicas import EngineReplica
from orchestrator_inference.versions.files import VerifiedFiles
from podium_kit.policy_versions import (
    Alias,
    Aliases,
    ArtifactRejected,
    Format,
    Manifest,
    VersionStore,
    canary_fault,
)
from podium_kit.policy_versions.reports import Report, write_report
from podium_kit.policy_versions.store import RETIRED
from podium_kit.rpc.errors import DomainError

log = logging.getLogger(__name__)

Replicas = Callable[[], Awaitable[Sequence[EngineReplica]]]


@dataclass(frozen=True)
class AdmissionRules:
    engine_store: str
    """The store's folder as the engines see it."""
    quorum: float = 1.0
    """Share of the replicas that must serve an adapter at first; a call may meet one without."""
    tolerance_nats: float = 0.08
    kept: int = 6
    """Newest versions that stay loaded, besides those that aliases and pins mean."""
    retire_after_s: float = 600.0
    """Seconds that an unused version stays loaded, so that calls that began with it can end."""


class VersionAdmission:
    """The versions of the store that replicas serve. `in_use` counts the calls under way by
    version.
    """

    def __init__(
        self,
        store: VersionStore,
        replicas: Mapping[Format, Replicas],
        rules: AdmissionRules,
        in_use: Mapping[str, int],
    ) -> None:
        self._store = store
        self._aliases = Aliases(store.root)
        self._replicas = replicas
        self._rules = rules
        self._in_use = in_use
        self._files = VerifiedFiles(store)
        self._passed: set[tuple[str, str]] = set()
        """Replica and version whose canary was right since it was loaded."""
        self._failed: dict[tuple[str, str], str] = {}
        """Versions that failed are not tried there again before a restart: a name may be cached."""
        self._stuck: set[tuple[str, str]] = set()
        """Failed and not to be unloaded: who is balanced there would get a wrong answer."""
        self._unwanted_since: dict[str, float] = {}
        self.admitted: frozenset[str] = frozenset()
        self.owners: dict[str, str] = {}
        """The tenant that alone may use a version, by version; "" is every tenant."""

    async def reconcile(self) -> None:
        replicas = await self._all_replicas()
        listed = await asyncio.gather(*map(_served, replicas))
        served = dict(zip(replicas, listed, strict=True))
        self._forget_restarted(served)
        wanted = self._wanted()
        for name in wanted:
            await self._bring(name, served)
        for name in [str(each) for each in self._store.names() if str(each) not in wanted]:
            await self._retire(name, served)
        self._move_candidate()

    def _wanted(self) -> list[str]:
        names = self._files.by_age()
        meant = self._aliases.meant
        newest = set(names[-self._rules.kept :])
        busy = {name for name, calls in self._in_use.items() if calls}
        return [name for name in names if name in meant | newest | busy]

    async def _bring(
        self, name: str, served: Mapping[EngineReplica, frozenset[str] | None]
    ) -> None:
        self._unwanted_since.pop(name, None)
        try:
            manifest = await self._files.verified(name)
        except ArtifactRejected as rejection:
            self._withdraw(name)
            await _unload_everywhere(name, served)
            self._report(name, 0, len(served), [rejection.why])
            return
        self.owners[name] = manifest.tenant
        replicas = self._of(manifest, await self._replicas[manifest.format](), served)
        # At once: one that hangs takes its own time, and not each other's.
        faults = await asyncio.gather(
            *(self._admit(manifest, each, served.get(each)) for each in replicas)
        )
        ready = faults.count(None)
        enough = ready >= self._needed(name, len(replicas)) and not self._is_wrong_somewhere(name)
        self.admitted = self.admitted | {name} if enough else self.admitted - {name}
        reasons = [words for words in faults if words] or (
            [] if replicas else ["no engine serves it"]
        )
        self._report(name, ready, len(replicas), reasons)

    def _needed(self, name: str, replicas: int) -> int:
        """The quorum at first; later one replica: the restart of one must not stop the others."""
        if name in self.admitted:
            return 1
        return max(1, math.ceil(self._rules.quorum * replicas))

    def _is_wrong_somewhere(self, name: str) -> bool:
        """Returns whether a replica that failed its canary could still be asked for it."""
        return any(stuck == name for _, stuck in self._stuck)

    def _of(
        self,
        manifest: Manifest,
        replicas: Sequence[EngineReplica],
        served: Mapping[EngineReplica, frozenset[str] | None],
    ) -> Sequence[EngineReplica]:
        """A merged version has engines of its own, started on it; an adapter goes everywhere."""
        if manifest.format is Format.ADAPTER:
            return replicas
        return [each for each in replicas if manifest.name in (served.get(each) or ())]

    async def _admit(
        self, manifest: Manifest, replica: EngineReplica, served: frozenset[str] | None
    ) -> str | None:
        key = (replica.url, manifest.name)
        if served is None:
            return f"{replica.url} does not answer"
        if key in self._failed:
            if manifest.name in served:
                await self._expel(manifest.name, replica)
            return self._failed[key]
        if key in self._passed:
            return None
        try:
            if manifest.name not in served:
                await replica.load(manifest.name, f"{self._rules.engine_store}/{manifest.name}")
            answered = await replica.logprobs(manifest.name, manifest.canary.prompts)
        except DomainError as error:
            return str(error)
        fault = canary_fault(
            answered,
            manifest.canary,
            self._files.other_canaries(manifest.name),
            self._rules.tolerance_nats,
        )
        if fault is None:
            self._passed.add(key)
            self._stuck.discard(key)
            return None
        self._failed[key] = f"{replica.url}: {fault}"
        log.error("policy version %s is not served: %s", manifest.name, self._failed[key])
        await self._expel(manifest.name, replica)
        return self._failed[key]

    async def _expel(self, name: str, replica: EngineReplica) -> None:
        """A replica that cannot unload the version gets no calls for it."""
        self._stuck.add((replica.url, name))
        if await _unload(name, replica):
            self._stuck.discard((replica.url, name))

    async def _retire(
        self, name: str, served: Mapping[EngineReplica, frozenset[str] | None]
    ) -> None:
        since = self._unwanted_since.setdefault(name, time.monotonic())
        if time.monotonic() - since < self._rules.retire_after_s:
            return
        self._withdraw(name)
        loaded = [each for each, names in served.items() if names is None or name in names]
        if loaded:
            await _unload_everywhere(name, served)
        self._report(name, 0, len(loaded), [RETIRED])

    def _withdraw(self, name: str) -> None:
        self.admitted -= {name}
        self._passed = {key for key in self._passed if key[1] != name}

    def _forget_restarted(self, served: Mapping[EngineReplica, frozenset[str] | None]) -> None:
        """Forgets the versions that a replica no longer lists; it must load and prove them again.

        Anyone who was away or lost something may have restarted, and what failed there is right
        now.
        """
        listed = {each.url: names for each, names in served.items() if names is not None}
        there = {(url, name) for url, names in listed.items() for name in names}
        lost = {url for url, _ in (self._passed | self._stuck) - there}
        self._failed = {
            key: why for key, why in self._failed.items() if key[0] in listed.keys() - lost
        }
        self._passed &= there
        # One that does not answer may still have it.
        silent = {each.url for each, names in served.items() if names is None}
        self._stuck = {key for key in self._stuck if key in there or key[0] in silent}

    def _move_candidate(self) -> None:
        # An alias means one version for every tenant.
        shared = {name for name in self.admitted if not self.owners[name]}
        admitted = [name for name in self._files.by_age() if name in shared]
        if admitted and admitted[-1] != self._aliases.current(Alias.CANDIDATE):
            self._aliases.move(Alias.CANDIDATE, admitted[-1])

    async def _all_replicas(self) -> list[EngineReplica]:
        return [each for replicas in self._replicas.values() for each in await replicas()]

    def _report(self, name: str, ready: int, replicas: int, faults: Sequence[str]) -> None:
        report = Report(
            name=name,
            ready=name in self.admitted,
            replicas_ready=ready,
            replicas=replicas,
            faults=tuple(faults),
        )
        write_report(self._store.root, report)


async def _served(replica: EngineReplica) -> frozenset[str] | None:
    try:
        return await replica.served()
    except DomainError:
        return None


async def _unload_everywhere(
    name: str, served: Mapping[EngineReplica, frozenset[str] | None]
) -> None:
    holders = [replica for replica, names in served.items() if name in (names or ())]
    await asyncio.gather(*(_unload(name, each) for each in holders))


async def _unload(name: str, replica: EngineReplica) -> bool:
    try:
        await replica.unload(name)
    except DomainError as error:
        log.warning("policy version %s stays loaded: %s", name, error)
        return False
    return True
