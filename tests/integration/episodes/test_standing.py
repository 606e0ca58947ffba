import asyncio
import uuid
from datetime import timedelta

from sqlalchemy.ext.asyncio import create_async_engine

from embedded_servers import Database
from episodes.models import OutboxRecord
from episodes.publication.store_outbox import OutboxStore
from episodes.queue.metrics import oldest
from episodes.server import MIGRATIONS
from episodes.workflows.connection import TemporalConnection, backlog_age_s
from episodes.workflows.settings import TemporalSettings
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.postgres.migrations import upgrade


async def test_a_task_that_no_worker_takes_grows_old(temporal: EmbeddedTemporal) -> None:
    connection = await TemporalConnection.open(temporal.target, "default", TemporalSettings())
    queue = f"nobody-{uuid.uuid4().hex}"
    assert await backlog_age_s(connection, queue) == 0
    await connection.client.start_workflow(
        "Forgotten", id=uuid.uuid4().hex, task_queue=queue, execution_timeout=timedelta(minutes=5)
    )
    first = await older_than(connection, queue, 0)
    assert await older_than(connection, queue, first) > first


async def older_than(connection: TemporalConnection, queue: str, age_s: float) -> float:
    async with asyncio.timeout(120):
        while (found := await backlog_age_s(connection, queue)) <= age_s:
            await asyncio.sleep(0.2)
    return found


async def test_the_oldest_of_what_waits_is_shown() -> None:
    async def tasks_s() -> float:
        return 2.0

    async def calls_s() -> float:
        return 3.0

    assert await oldest(tasks_s, calls_s)() == 3.0


async def test_a_record_that_is_on_no_topic_grows_old(database: Database) -> None:
    url = await database("episodes")
    await upgrade(url, MIGRATIONS)
    engine = create_async_engine(url)
    outbox = OutboxStore(engine)
    assert await outbox.oldest_pending_s() == 0
    for number in ("1", "2"):
        await outbox.add(OutboxRecord(number, "trajectory", "acme", "g", number.encode(), {}))
    first = await outbox.oldest_pending_s()
    assert await outbox.oldest_pending_s() > first > 0
    (placed, kept_aside), _ = await outbox.pending(2, 100)
    await outbox.mark_published([(placed.row_id, 0, 0)])
    assert await outbox.oldest_pending_s() > 0
    # What is dead-lettered waits for a person, whom another alert calls.
    await outbox.mark_dead(kept_aside, "no trainer can use it")
    assert await outbox.oldest_pending_s() == 0
    await engine.dispose()


async def test_what_is_owed_comes_in_batches_of_bounded_size(database: Database) -> None:
    url = await database("episodes")
    await upgrade(url, MIGRATIONS)
    engine = create_async_engine(url)
    outbox = OutboxStore(engine)
    for number in ("1", "2", "3"):
        body = number.encode() * 10
        await outbox.add(OutboxRecord(number, "trajectory", "acme", "g", body, {}))

    async def batch(limit: int, batch_bytes: int) -> tuple[str, bool]:
        owed, more = await outbox.pending(limit, batch_bytes)
        return "".join(each.record.record_id for each in owed), more

    assert await batch(3, 30) == ("123", False)
    assert await batch(2, 30) == ("12", True)
    assert await batch(3, 29) == ("12", True)
    # A record that is larger than a batch goes alone.
    assert await batch(3, 1) == ("1", True)
    await engine.dispose()
