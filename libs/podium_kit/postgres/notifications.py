"""Notifications of PostgreSQL, which reach every process that listens."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

CHECK_INTERVAL_S = 1.0
ALIVE = text("SELECT 1")


@dataclass(frozen=True)
class Listener:
    """`notify` gets each part of a payload that commas separate; `missed` is called where
    notifications may be lost.
    """

    channel: str
    notify: Callable[[str], None]
    missed: Callable[[], None]


class Notifications:
    """One listening connection for the whole process."""

    def __init__(self, engine: AsyncEngine, listeners: Iterable[Listener]) -> None:
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._listeners = {each.channel: each for each in listeners}
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
            for channel in self._listeners:
                await driver.add_listener(channel, self._receive)
        except BaseException:
            # It lives, and would pass for one that listens.
            await self.close()
            raise
        for listener in self._listeners.values():
            listener.missed()

    def _receive(self, _connection: Any, _pid: int, channel: str, payload: str) -> None:
        for each in payload.split(","):
            self._listeners[channel].notify(each)
