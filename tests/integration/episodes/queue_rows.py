from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.direct_calls.call import StoredCall
from episodes.direct_calls.store import DirectCallStore
from episodes.models import Membership, NewEpisode
from episodes.store import EpisodeStore
from integration.episodes.platform_under_test import new_id

TIME_LIMIT_S = 600.0


def new_episode(group_size: int = 1, tenant: str = "acme") -> NewEpisode:
    episode_id = new_id()
    return NewEpisode(
        episode_id=episode_id,
        tenant=tenant,
        subject="ada",
        groups=frozenset(),
        spec=b"",
        toolset=b"",
        toolset_digest=b"digest",
        policy_name="balanced",
        policy_version=1,
        membership=Membership(episode_id, group_size, 0, episode_id),
        labels={},
        turn_limit=5,
        time_limit_s=TIME_LIMIT_S,
    )


async def queued_episode(engine: AsyncEngine, tenant: str = "acme") -> str:
    new = new_episode(tenant=tenant)
    await EpisodeStore(engine).insert(new, queued=True)
    return new.episode_id


async def queued_call(engine: AsyncEngine, tenant: str = "acme") -> str:
    call = StoredCall(new_id(), tenant, "ada", b"spec", b"toolset", datetime.now(UTC))
    await DirectCallStore(engine).insert(call)
    return call.id
