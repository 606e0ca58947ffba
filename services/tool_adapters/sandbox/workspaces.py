"""The packed workspaces of episodes between two calls: a file for each, opened by no one here."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from weakref import WeakValueDictionary


class PackedWorkspace:
    """The workspace of one episode, held while no other call runs code in it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def load(self) -> bytes:
        """What was saved last; empty for a new episode."""
        return await asyncio.to_thread(self._read)

    async def save(self, packed: bytes) -> None:
        """Replaces it as a whole, or not at all."""
        await asyncio.to_thread(self._write, packed)

    def _read(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""

    def _write(self, packed: bytes) -> None:
        written = self._path.with_suffix(".new")
        written.write_bytes(packed)
        written.replace(self._path)


class Workspaces:
    """Packed workspaces in one folder. Callers are trusted, what is in the files is not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    @asynccontextmanager
    async def of_episode(self, tenant: str, episode_id: str) -> AsyncIterator[PackedWorkspace]:
        """An episode's workspace; two calls of one episode run one after the other."""
        path = self._path(tenant, episode_id)
        async with self._locks.setdefault(path, asyncio.Lock()):
            yield PackedWorkspace(path)

    def close_episode(self, tenant: str, episode_id: str) -> None:
        """Removes an episode's workspace, if there is one."""
        self._path(tenant, episode_id).unlink(missing_ok=True)

    def _path(self, tenant: str, episode_id: str) -> Path:
        # Hashed: an id must not become a path, and another tenant's id another place.
        digest = hashlib.sha256(f"{tenant}\0{episode_id}".encode()).hexdigest()
        return self._folder / f"episode-{digest}.tar"
