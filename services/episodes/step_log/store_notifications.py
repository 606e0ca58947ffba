from collections.abc import Callable
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

# Steps of episodes, and ends of direct calls.
CHANNEL = "episode_steps"
CHECK_INTERVAL_S = 1.0
ALIVE = text("SELECT 1")


class Notifications:
    """One listening connection for the whole process.

    `notify` gets the ids of changed rows, `missed` is called where notifications may be lost.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        notify: Callable[[str], None],
        missed: Callable[[], None],
        channel: str = CHANNEL,
    ) -> None:
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._notify = notify
        self._missed = missed
        self._channel = channel
        self._connection: AsyncConnection | None = None

    async def keep_listening(self) -> None:
        """Listens, and reconnects; call it every CHECK_INTERVAL_S."""
        if self._connection is None:
            await self._listen()
            return
        try:
            await self._connection.execute(ALIVE)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.invalidate()
            await connection.close()

    async def _listen(self) -> None:
        self._connection = await self._engine.connect()
        try:
            driver: Any = (await self._connection.get_raw_connection()).driver_connection
            await driver.add_listener(self._channel, self._receive)
        except BaseException:
            # It lives, and would pass for one that listens.
            await self.close()
            raise
        self._missed()

    def _receive(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        for each in payload.split(","):
            self._notify(each)
