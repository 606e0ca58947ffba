import asyncio

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.step_log.settlements import Settlements
from episodes.step_log.store import StepStore
from episodes.step_log.store_notifications import Notifications
from integration.episodes.platform_under_test import new_id

LISTENERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND query ILIKE 'LISTEN%'"
)


async def test_news_are_heard_and_a_lost_connection_is_told(engine: AsyncEngine) -> None:
    heard, missed = asyncio.Queue[str](), asyncio.Queue[None]()
    notifications = Notifications(engine, heard.put_nowait, lambda: missed.put_nowait(None))
    await notifications.keep_listening()
    await missed.get()
    settlements, episode = Settlements(StepStore(engine)), new_id()
    settlements.notify(episode)
    await settlements.flush()
    assert await heard.get() == episode
    async with engine.begin() as connection:
        await connection.execute(text(LISTENERS))
    with pytest.raises(Exception, match=r"connection|another operation"):
        # The server ends the connection a moment after it said so.
        while True:
            await notifications.keep_listening()
    assert missed.empty()
    await notifications.keep_listening()
    await missed.get()
    await notifications.close()


async def test_who_could_not_listen_listens_later(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby takes no LISTEN, and keeps its connections when it is promoted."""

    async def on_standby(*_: object) -> None:
        raise asyncpg.ReadOnlySQLTransactionError("cannot execute LISTEN during recovery")

    heard, missed = asyncio.Queue[str](), asyncio.Queue[None]()
    notifications = Notifications(engine, heard.put_nowait, lambda: missed.put_nowait(None))
    with monkeypatch.context() as standby:
        standby.setattr(asyncpg.Connection, "add_listener", on_standby)
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await notifications.keep_listening()
    await notifications.keep_listening()
    async with asyncio.timeout(10):
        await missed.get()
    await notifications.close()
