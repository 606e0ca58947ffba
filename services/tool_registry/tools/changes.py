import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

from podium_kit.rpc.errors import Unavailable
from tool_registry.policies.store import PolicyStore
from tool_registry.tools.store import ToolStore

WAIT_S = 20.0
# By which the clocks of two servers may differ: by then each answers by the new default.
SKEW = timedelta(seconds=0.25)


class CatalogueChanges:
    """Tells those who keep answers of the registry when to ask again."""

    def __init__(self, store: ToolStore) -> None:
        self._store = store
        self.news = asyncio.Event()
        """Set by the next change."""
        self._ends = False

    def notify(self, _payload: str = "") -> None:
        self.news.set()
        self.news = asyncio.Event()

    def end(self) -> None:
        """Sends all who wait to other servers: this one is about to stop."""
        self._ends = True
        self.notify()

    async def after(self, version: int) -> int:
        """Returns the version of the catalogue once it is another, or after WAIT_S. Raises
        Unavailable."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                while True:
                    # Taken before the version is read, so that no later change is missed.
                    news = self.news
                    if self._ends:
                        raise Unavailable("this server stops; another one tells of changes")
                    current = (await self._store.versions()).catalogue
                    if current != version:
                        return current
                    await news.wait()
        return version


class ActivationSchedule:
    """Announces a policy that becomes the default at a set time, as one that becomes it at once."""

    def __init__(
        self, store: PolicyStore, changes: CatalogueChanges, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._changes = changes
        self._clock = clock
        self._announced = clock() - SKEW

    async def announce(self) -> bool:
        """Announces what has begun, and waits for the next to begin; there may always be one."""
        # Taken before the schedule is read, so that no later change of it is missed.
        news, due = self._changes.news, self._clock() - SKEW
        following = await self._store.announce_activations(self._announced, due)
        self._announced = due
        wait_s = WAIT_S if following is None else (following - due).total_seconds()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(wait_s, WAIT_S)):
                await news.wait()
        return True
