import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest
import pytest_asyncio
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from integration.podium_kit.rpc.policies_under_test import PoliciesUnderTest
from integration.podium_kit.rpc.test_health import NOT_SERVING, SERVING, answer, watch
from podium_kit.rpc.background import BackgroundTask

LOCK = "UPDATE account SET balance = balance + 1 WHERE id = {}"
FAILED_ROUNDS = 3


class Transfers:
    """Rounds that lock two rows, and a rival that comes in between as long as `trouble` is set."""

    def __init__(self, database_url: str, rival: asyncpg.Connection) -> None:
        self.engine = create_async_engine(database_url, pool_size=1, max_overflow=0)
        self.rival = rival
        self.trouble: Callable[[int], Awaitable[None]] | None = None
        self._waiting: asyncio.Task[str] | None = None

    async def round(self) -> None:
        async with self.engine.begin() as connection:
            # The one that looks for a deadlock first is the one that is ended.
            await connection.execute(text("SET LOCAL deadlock_timeout = '10ms'"))
            await connection.execute(text("SET LOCAL statement_timeout = '500ms'"))
            await connection.execute(text(LOCK.format(1)))
            if self.trouble:
                await self._meet(connection)
            await connection.execute(text(LOCK.format(2)))

    async def patient_round(self) -> None:
        """Waits for the second row as long as the rival holds it."""
        async with self.engine.begin() as connection:
            await connection.execute(text(LOCK.format(2)))

    async def _meet(self, connection: AsyncConnection) -> None:
        assert self.trouble
        pid = (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one()
        await self.trouble(pid)

    async def deadlock(self, _pid: int) -> None:
        """The rival holds the second row and asks for the first."""
        await self.hold_second()
        self._waiting = asyncio.create_task(self.rival.execute(LOCK.format(1)))

    async def statement_timeout(self, _pid: int) -> None:
        """The rival holds the second row for longer than the round may wait."""
        await self.hold_second()

    async def lost_connection(self, pid: int) -> None:
        await self.rival.execute("SELECT pg_terminate_backend($1, 5000)", pid)

    async def hold_second(self) -> None:
        await self.let_go()
        await self.rival.execute("BEGIN; SET LOCAL deadlock_timeout = '1h'; " + LOCK.format(2))

    async def let_go(self) -> None:
        if self._waiting:
            await self._waiting
        await self.rival.execute("ROLLBACK")


@pytest_asyncio.fixture
async def transfers(database: Callable[[], Awaitable[str]]) -> AsyncIterator[Transfers]:
    url = await database()
    rival = await asyncpg.connect(
        make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    )
    await rival.execute("CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)")
    await rival.execute("INSERT INTO account VALUES (1, 0), (2, 0)")
    made = Transfers(url, rival)
    yield made
    await made.engine.dispose()
    await rival.close()


@pytest.mark.parametrize(
    ("trouble", "cause"),
    [
        ("deadlock", "DeadlockDetectedError"),
        ("statement_timeout", "QueryCanceledError"),
        # Where in the round the session ends decides which error it is.
        (
            "lost_connection",
            "connection is closed|terminating connection|connection was closed|InternalError",
        ),
    ],
)
async def test_a_task_goes_on_is_logged_and_shows_in_health(
    server: PoliciesUnderTest,
    transfers: Transfers,
    caplog: pytest.LogCaptureFixture,
    trouble: str,
    cause: str,
) -> None:
    task = BackgroundTask("transfers", transfers.round, interval_s=0.01)
    with caplog.at_level(logging.INFO, "podium_kit"):
        async with server.serving(answer, tasks=[task]), server.plain_channel() as channel:
            states = watch(channel, "background/transfers")
            assert await anext(states) == SERVING
            transfers.trouble = getattr(transfers, trouble)
            assert await anext(states) == NOT_SERVING
            assert await anext(watch(channel, "background")) == NOT_SERVING
            assert await anext(watch(channel, "readiness")) == SERVING
            transfers.trouble = None
            await transfers.let_go()
            assert await anext(states) == SERVING
    assert re.search(cause, caplog.text)
    assert f"background task transfers failed, {FAILED_ROUNDS} in a row" in caplog.text
    assert "background task transfers works again" in caplog.text


async def test_a_round_that_hangs_shows_in_health_until_it_ends(
    server: PoliciesUnderTest, transfers: Transfers, caplog: pytest.LogCaptureFixture
) -> None:
    task = BackgroundTask("transfers", transfers.patient_round, interval_s=0.01, round_max_s=1)
    async with server.serving(answer, tasks=[task]), server.plain_channel() as channel:
        states = watch(channel, "background/transfers")
        assert await anext(states) == SERVING
        await transfers.hold_second()
        assert await anext(states) == NOT_SERVING
        assert await anext(watch(channel, "readiness")) == SERVING
        await transfers.let_go()
        assert await anext(states) == SERVING
    assert "background task transfers hangs" in caplog.text


async def test_a_round_that_is_cancelled_from_within_does_not_end_the_task() -> None:
    rounds = 0

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            raise asyncio.CancelledError

    task = BackgroundTask("work", work, interval_s=0)
    running = asyncio.create_task(task.run())
    while rounds < 2:
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
