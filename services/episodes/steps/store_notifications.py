"""PostgreSQL notifications of new steps."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

log = logging.getLogger(__name__)

CHANNEL = "episode_steps"
RECONNECT_INTERVAL_S = 1.0


class Notifications:
    """One listening connection for the whole process."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._received: asyncio.Queue[str] = asyncio.Queue()

    async def listen(self) -> AsyncIterator[str]:
        """Ids of episodes with news, until cancelled; reconnects by itself."""
        listening = asyncio.create_task(self._keep_listening())
        try:
            while True:
                for episode_id in (await self._received.get()).split(","):
                    yield episode_id
        finally:
            listening.cancel()

    async def _keep_listening(self) -> None:
        while True:
            try:
                await self._listen_once()
            except (DBAPIError, OSError) as error:
                log.warning("cannot listen for notifications: %s", type(error).__name__)
            await asyncio.sleep(RECONNECT_INTERVAL_S)

    async def _listen_once(self) -> None:
        async with self._engine.connect() as connection:
            raw = await connection.get_raw_connection()
            driver: Any = raw.driver_connection
            closed = asyncio.Event()
            driver.add_termination_listener(lambda _connection: closed.set())
            await driver.add_listener(CHANNEL, self._receive)
            await closed.wait()

    def _receive(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        self._received.put_nowait(payload)
