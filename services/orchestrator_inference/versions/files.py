"""Folders of the store, which are read again when anything about them changes."""

import asyncio
from dataclasses import dataclass

from podium_kit.policy_versions import (
    ArtifactRejected,
    Canary,
    Manifest,
    Unreadable,
    VersionStore,
)

# Name, size, times and inode of every file: cheap to compare, changed by whatever writes.
Signature = tuple[tuple[str, int, int, int, int], ...]


@dataclass(frozen=True)
class _Seen:
    signature: Signature
    manifest: Manifest | None
    why: str = ""


class VerifiedFiles:
    """Digests are computed once per content: reading weights takes seconds."""

    def __init__(self, store: VersionStore) -> None:
        self._store = store
        self._seen: dict[str, _Seen] = {}

    async def verified(self, name: str) -> Manifest:
        """Raises ArtifactRejected unless the files are what was written."""
        signature = self._signature(name)
        seen = self._seen.get(name)
        if seen is None or seen.signature != signature:
            seen = self._seen[name] = await asyncio.to_thread(self._inspect, name, signature)
        if seen.manifest is None:
            raise ArtifactRejected(name, seen.why)
        return seen.manifest

    def other_canaries(self, name: str) -> list[Canary]:
        """Returns the canaries of every other version that was found whole."""
        found = [seen.manifest for other, seen in self._seen.items() if other != name]
        return [manifest.canary for manifest in found if manifest is not None]

    def by_age(self) -> list[str]:
        names = [str(name) for name in self._store.names()]
        order = {name: number for number, name in enumerate(names)}
        return sorted(names, key=lambda name: (self._store.written_ns(name), order[name]))

    def _inspect(self, name: str, signature: Signature) -> _Seen:
        try:
            manifest = self._store.verified(name)
        except Unreadable:
            # Looked at again, though nothing about the files may change.
            raise
        except ArtifactRejected as rejection:
            return _Seen(signature, None, rejection.why)
        return _Seen(signature, manifest)

    def _signature(self, name: str) -> Signature:
        try:
            found = [(entry.name, entry.stat()) for entry in self._store.path(name).iterdir()]
        except OSError as error:
            raise ArtifactRejected(name, f"its folder cannot be read: {error.strerror}") from error
        return tuple(
            sorted((n, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino) for n, s in found)
        )
