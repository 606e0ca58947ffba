from datetime import UTC, datetime, timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.direct_calls.call import StoredCall
from episodes.direct_calls.store import DirectCallStore
from episodes.episodes.store_retention import RetentionStore
from episodes.store import EpisodeStore
from integration.episodes.queue_rows import new_episode
from podium_kit.postgres.engine import autocommit

OWN, OTHER = "acme", "globex"
KEEP = text(
    "INSERT INTO attachments (tenant, owner_id, digest, data)"
    " VALUES (:tenant, CAST(:owner AS uuid), 'digest', 'data')"
)
KEPT = text("SELECT tenant FROM attachments WHERE owner_id = CAST(:owner AS uuid)")
END = text(
    "UPDATE episodes SET stop_reason = 'answered', end_time = now() - interval '2 days'"
    " WHERE id = CAST(:owner AS uuid)"
)


async def keep_files(engine: AsyncEngine, owner: str) -> None:
    async with autocommit(engine) as connection:
        for tenant in (OWN, OTHER):
            await connection.execute(KEEP, {"tenant": tenant, "owner": owner})


async def kept_by(engine: AsyncEngine, owner: str) -> list[str]:
    async with autocommit(engine) as connection:
        return list((await connection.execute(KEPT, {"owner": owner})).scalars())


async def test_a_direct_call_that_is_forgotten_takes_its_own_files_along(
    engine: AsyncEngine,
) -> None:
    owner = new_episode().episode_id
    await keep_files(engine, owner)
    store, began = DirectCallStore(engine), datetime.now(UTC) - timedelta(days=8)
    await store.insert(StoredCall(owner, OWN, "ada", b"spec", b"toolset", began))
    await store.forget(timedelta(days=7))
    assert await kept_by(engine, owner) == [OTHER]


async def test_an_episode_that_is_forgotten_takes_its_own_files_along(engine: AsyncEngine) -> None:
    new = new_episode(tenant=OWN)
    await EpisodeStore(engine).insert(new)
    await keep_files(engine, new.episode_id)
    async with autocommit(engine) as connection:
        await connection.execute(END, {"owner": new.episode_id})
    await RetentionStore(engine, 1).forget()
    assert await kept_by(engine, new.episode_id) == [OTHER]
