import asyncio
from contextlib import suppress

from podium_kit.rpc.errors import Unavailable
from tool_registry.tools.store import ToolStore

WAIT_S = 20.0


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
