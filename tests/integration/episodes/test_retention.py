import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import grpc
import pytest
import pytest_asyncio

from embedded_servers import Database
from episodes.episodes.store_retention import FORGET
from integration.episodes.platform_under_test import (
    EpisodesPlatform,
    finished,
    new_id,
    run_platform,
    start,
)
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_operations.erasure.statements import EPISODES

DAYS = 30
BODIES = "SELECT count(*) FROM segments WHERE position($1::bytea IN body) > 0"
ATTACHMENT = "INSERT INTO attachments VALUES ('acme', $1::uuid, sha256('x'), 'x')"
REFERRING = """
    SELECT conrelid::regclass::text AS table FROM pg_constraint
    WHERE confrelid = 'episodes'::regclass AND confdeltype <> 'c'
"""
UNREFERENCED = """
    SELECT count(*) FROM segments s WHERE NOT EXISTS (SELECT FROM steps WHERE digest = s.digest)
        AND NOT EXISTS (SELECT FROM outbox WHERE digest = s.digest)
        AND NOT EXISTS (SELECT FROM episodes WHERE toolset_digest = s.digest)
"""


@pytest_asyncio.fixture
async def forgetful(
    database: Database, temporal: EmbeddedTemporal, kafka: EmbeddedKafka, tmp_path: Path
) -> AsyncIterator[EpisodesPlatform]:
    settings = {"keep_episodes_days": str(DAYS)}
    url = await database("episodes")
    async with run_platform(url, temporal, kafka, tmp_path, settings) as platform:
        yield platform


async def query(
    platform: EpisodesPlatform, statement: str, *values: object
) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(platform.database_url.replace("+asyncpg", ""))
    try:
        rows: list[asyncpg.Record] = await connection.fetch(statement, *values)
        return rows
    finally:
        await connection.close()


async def count(platform: EpisodesPlatform, statement: str, *values: object) -> int:
    return int((await query(platform, statement, *values))[0][0])


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(120):
        while not await holds():
            await asyncio.sleep(0.1)


async def ran(platform: EpisodesPlatform, task: str, **spec: object) -> str:
    async with platform.client() as client:
        episode = await finished(client, (await start(client, task, **spec)).id)
        await client.GiveFeedback(
            pb.GiveFeedbackRequest(episode_id=episode.id, id="said", label="good", comment=task)
        )

    async def read_back() -> bool:
        owed = "SELECT count(*) FROM outbox WHERE confirm_time IS NULL AND group_id = $1"
        return not await count(platform, owed, episode.spec.group.id or episode.id)

    await until(read_back)
    return episode.id


async def age(platform: EpisodesPlatform, *episode_ids: str) -> None:
    older = f"end_time - interval '{DAYS + 1} days'"
    await query(
        platform,
        f"UPDATE episodes SET end_time = {older} WHERE id = ANY($1::uuid[])",
        list(episode_ids),
    )


async def restarted(platform: EpisodesPlatform) -> None:
    """The worker forgets when it starts, and from then on every ten minutes."""
    await platform.worker.kill()
    platform.worker.start()


async def kept(platform: EpisodesPlatform) -> set[str]:
    return {str(row["id"]) for row in await query(platform, "SELECT id FROM episodes")}


async def test_an_old_episode_is_forgotten_with_everything_it_said(
    forgetful: EpisodesPlatform,
) -> None:
    old = await ran(forgetful, "the old canary")
    young = await ran(forgetful, "the young canary")
    assert await count(forgetful, BODIES, b"the old canary")
    await query(forgetful, "INSERT INTO approval_decisions VALUES ($1::uuid, 1, 0)", old)
    for owner in (old, young):
        await query(forgetful, ATTACHMENT, owner)
    await age(forgetful, old)
    await restarted(forgetful)

    async def forgotten() -> bool:
        return await kept(forgetful) == {young}

    await until(forgotten)
    assert not await count(forgetful, BODIES, b"the old canary")
    assert await count(forgetful, BODIES, b"the young canary")
    assert not await count(forgetful, UNREFERENCED)
    owners = await query(forgetful, "SELECT owner_id FROM attachments")
    assert [str(row["owner_id"]) for row in owners] == [young]
    for table in ("steps", "feedback", "client_results", "approval_decisions", "outbox"):
        held = f"SELECT count(*) FROM {table} WHERE episode_id = $1::uuid"
        assert not await count(forgetful, held, old), table
    async with forgetful.client() as client:
        with pytest.raises(grpc.aio.AioRpcError) as gone:
            await client.GetEpisode(pb.GetEpisodeRequest(episode_id=old))
        assert gone.value.code() is grpc.StatusCode.NOT_FOUND
        reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=young))
        assert reply.trajectory.episode_id == young
        assert (await finished(client, (await start(client)).id)).answer


async def test_no_table_that_refers_to_episodes_is_forgotten_about(database: Database) -> None:
    """A new one would make forgetting and erasing fail for its first row."""
    connection = await asyncpg.connect((await database("episodes")).replace("+asyncpg", ""))
    try:
        found = {row["table"] for row in await connection.fetch(REFERRING)}
    finally:
        await connection.close()
    assert {"steps", "feedback"} <= found
    assert not {table for table in found if f"DELETE FROM {table} " not in FORGET.text}
    assert found <= EPISODES.keys()


async def test_what_is_owed_or_belongs_to_an_open_group_is_kept(
    forgetful: EpisodesPlatform,
) -> None:
    open_group = episode_pb2.Group(id=new_id(), size=2, sample_index=0)
    first_of_two = await ran(forgetful, "one of two", group=open_group)
    owed, old = await ran(forgetful, "owed"), await ran(forgetful, "old")
    dead = "UPDATE outbox SET confirm_time = NULL, dead_letter_reason = 'x' WHERE episode_id = $1"
    await query(forgetful, dead, owed)
    await age(forgetful, first_of_two, owed, old)
    await restarted(forgetful)

    async def forgotten() -> bool:
        return old not in await kept(forgetful)

    await until(forgotten)
    assert await kept(forgetful) == {first_of_two, owed}
