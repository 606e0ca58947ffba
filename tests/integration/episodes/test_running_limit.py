import asyncio
from typing import TYPE_CHECKING

import grpc

from integration.episodes.platform_under_test import EpisodesPlatform, finished, new_id
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.rpc.errors import ResourceExhausted
from podium_kit.rpc.status import domain_error_from

if TYPE_CHECKING:
    # Only the stubs know the asynchronous face of a stub.
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub

STARTS, LIMIT = 50, 7


def request_of(episode_id: str) -> pb.StartEpisodeRequest:
    spec = episode_pb2.EpisodeSpec(task="what is 6 x 7?")
    return pb.StartEpisodeRequest(episode_id=episode_id, spec=spec, running_limit=LIMIT)


async def admitted(client: "EpisodeServiceAsyncStub", episode_id: str) -> bool:
    try:
        await client.StartEpisode(request_of(episode_id))
    except grpc.aio.AioRpcError as rejection:
        error = domain_error_from(rejection)
        assert isinstance(error, ResourceExhausted), rejection
        assert error.reason == "TOO_MANY_RUNNING"
        assert f"{LIMIT} episodes at once" in error.message
        assert "cancel one" in error.message
        return False
    return True


async def test_fifty_starts_at_once_admit_exactly_the_limit(platform: EpisodesPlatform) -> None:
    # No episode ends while the test counts.
    platform.neighbours.orchestrator.delay_s = 600.0
    ids = [new_id() for _ in range(STARTS)]
    async with platform.client() as client, platform.client(f"{platform.tenant}-2") as other:
        answers = await asyncio.gather(*(admitted(client, one) for one in ids))
        running = [one for one, taken in zip(ids, answers, strict=True) if taken]
        assert len(running) == LIMIT
        # The retry of a start that succeeded finds its episode; another tenant has its own limit.
        assert await admitted(client, running[0])
        assert await admitted(other, new_id())
        # A rejected start left nothing behind.
        listed = await client.ListEpisodes(pb.ListEpisodesRequest(page_size=500))
        assert {episode.id for episode in listed.episodes} == set(running)
        await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=running[0]))
        await finished(client, running[0])
        again = await asyncio.gather(*(admitted(client, new_id()) for _ in range(10)))
        assert sum(again) == 1
    await platform.end_episodes(f"{platform.tenant}-2")
