import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Protocol
from weakref import WeakValueDictionary

from tool_adapters.workspaces.models import Saved, Whose


class WorkspaceStore(Protocol):
    async def load(self, whose: Whose) -> Saved: ...
    async def save(self, whose: Whose, replaced: str, packed: bytes) -> bool: ...
    async def delete(self, whose: Whose) -> None: ...
    async def forget_older_than(self, age: timedelta) -> None: ...


class Workspaces:
    """Lets calls of one episode follow each other as far as they meet in this process.

    Those that meet in several are distinguished by the revision they began with: see `save`.
    """

    def __init__(self, store: WorkspaceStore) -> None:
        self._store = store
        self._turns: WeakValueDictionary[Whose, asyncio.Lock] = WeakValueDictionary()
        self._writing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn_of(self, whose: Whose) -> AsyncIterator[None]:
        """Held while code runs in the workspace."""
        async with self._turns.setdefault(whose, asyncio.Lock()):
            yield

    async def load(self, whose: Whose) -> Saved:
        return await self._store.load(whose)

    async def save(self, whose: Whose, replaced: str, packed: bytes) -> bool:
        """Replaces that revision as a whole; False when another call has replaced it meanwhile.

        Raises WorkspaceFull and DatabaseUnavailable; then the workspace is as it was.
        """
        # A tenant's saves wait for each other in the database as well, and must not take all of
        # its connections for it.
        async with self._writing.setdefault(whose.tenant, asyncio.Lock()):
            return await self._store.save(whose, replaced, packed)

    async def close(self, whose: Whose) -> None:
        await self._store.delete(whose)

    async def forget_older_than(self, age: timedelta) -> None:
        await self._store.forget_older_than(age)
