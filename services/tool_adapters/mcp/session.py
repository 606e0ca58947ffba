"""One session with an MCP server, kept open by a task of its own.

The SDK's client must be closed by the task that opened it, but a session outlives the
request that opened it; so a task holds it, and requests borrow it.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from tool_adapters.used_secrets import UsedSecrets, noting_secrets, used_secrets

if TYPE_CHECKING:
    from mcp import Client

log = logging.getLogger(__name__)

# The SDK needs up to 6 s to end a process that does not want to.
CLOSE_TIMEOUT_S = 10.0


class McpSession:
    def __init__(self, opening: "AbstractAsyncContextManager[Client]") -> None:
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._borrowers = 0
        self._last_used = time.monotonic()
        # The server knows them, whichever call it answers.
        self._used = UsedSecrets()
        self._task = asyncio.create_task(self._hold(opening))

    @property
    def in_use(self) -> bool:
        return self._borrowers > 0

    @property
    def idle_s(self) -> float:
        """Seconds since the last call ended; 0 while one runs."""
        return 0.0 if self._borrowers else time.monotonic() - self._last_used

    @asynccontextmanager
    async def borrowed(self) -> "AsyncIterator[Client]":
        """The client for one call. Raises what opening it raised."""
        self._borrowers += 1
        try:
            # Shielded: a cancelled call must not take the session from the others.
            yield await asyncio.shield(self._client)
        finally:
            used_secrets().update(self._used)
            self._borrowers -= 1
            self._last_used = time.monotonic()

    async def close(self) -> None:
        self._closing.set()
        if not self._client.done():
            self._task.cancel()
        done, _ = await asyncio.wait({self._task}, timeout=CLOSE_TIMEOUT_S)
        if not done:
            log.warning("an MCP session did not close within %g s", CLOSE_TIMEOUT_S)
            self._task.cancel()

    async def _hold(self, opening: "AbstractAsyncContextManager[Client]") -> None:
        try:
            with noting_secrets(self._used):
                async with opening as client:
                    self._client.set_result(client)
                    await self._closing.wait()
        except asyncio.CancelledError:
            self._client.cancel()
            raise
        except Exception as error:  # noqa: BLE001 borrowers get it, if any are left
            if self._client.done():
                log.info("an MCP session ended with %s", type(error).__name__)
            else:
                self._client.set_exception(error)
                # Marks it retrieved: a cancelled borrower would leave asyncio a warning.
                self._client.exception()
